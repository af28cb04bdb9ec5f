// Package fetch has a browser's client of a guarded service, fetch.js, and the CORS
// headers that the client needs from another origin. docs/clients.md explains both.
package fetch

import "net/http"

// CORS lets the pages of an origin call the service. It stands outside the guard, so that
// problems and replays have its headers too, and they are not stored.
func CORS(origin string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Access-Control-Allow-Origin", origin)
		header.Add("Vary", "Origin")
		header.Set("Access-Control-Expose-Headers", "Retry-After, X-Idempotent-Replay") // else the page cannot read them
		if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
			next.ServeHTTP(w, r)
			return
		}
		header.Set("Access-Control-Allow-Methods", "POST")
		header.Set("Access-Control-Allow-Headers", "Content-Type, Idempotency-Key")
		header.Set("Access-Control-Max-Age", "600")
		w.WriteHeader(http.StatusNoContent)
	})
}
