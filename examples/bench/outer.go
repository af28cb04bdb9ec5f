package main

import (
	"net/http"
	"strconv"
)

// outer is the middleware outside of a guard in a real service: a request's identifiers, the
// headers of security middleware, and those of CORS. It sets twelve headers.
func outer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Request-Id", strconv.FormatUint(sequence.Add(1), 16))
		h.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		h.Set("Strict-Transport-Security", "max-age=31536000; includeSubDomains")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Content-Security-Policy", "default-src 'none'")
		h.Set("Permissions-Policy", "geolocation=()")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Access-Control-Allow-Origin", "https://shop.example")
		h.Set("Vary", "Origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}
