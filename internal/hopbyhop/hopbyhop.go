// Package hopbyhop knows the headers of one connection. A response is stored
// without them, and a policy cannot keep them.
package hopbyhop

import (
	"net/http"
	"slices"
)

// headers are those of RFC 9110, section 7.6.1, and RFC 2616, section 13.5.1.
// Trailer is not among them, because net/http writes a response's trailers anew
// from it.
var headers = []string{
	"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
	"Proxy-Connection", "Te", "Transfer-Encoding", "Upgrade",
}

// Has reports whether the header, in any case, belongs to one connection.
func Has(name string) bool {
	return slices.Contains(headers, http.CanonicalHeaderKey(name))
}
