package wire

import (
	"net/http"
	"net/url"
	paths "path"
	"strings"
)

// RequestPath returns the path that names the request's resource. Where middleware has
// only stripped a prefix, RequestPath returns the client's whole path, so that two
// mounts of one handler stay two resources. Otherwise RequestPath returns URL.Path,
// because a handler has made a sub-request or middleware has rewritten the path.
func RequestPath(r *http.Request) string {
	path := CanonicalPath(r.URL)
	if target, _, _ := strings.Cut(r.RequestURI, "?"); target != path && target != "" { // "" in a request that no server has read
		if u, err := url.ParseRequestURI(target); err == nil { // also for the absolute form
			prefix, stripped := strings.CutSuffix(CanonicalPath(u), path)
			if stripped && (paths.Clean(prefix) != "/" || !strings.HasPrefix(path, "/")) { // "/a/.." was no mount
				path = prefix + path
			}
		}
	}
	if path == "" { // RFC 9110, section 4.2.3
		return "/"
	}
	return path
}

// CanonicalPath returns the same text for equal spellings of a path. An escaped slash
// stays different from a slash. CanonicalPath splits RawPath, because URL.EscapedPath
// ignores a RawPath with unescaped special characters.
func CanonicalPath(u *url.URL) string {
	if u.RawPath == "" {
		return strings.ReplaceAll(u.Path, "%", "%25")
	}
	if plain, err := url.PathUnescape(u.RawPath); err != nil || plain != u.Path {
		return strings.ReplaceAll(u.Path, "%", "%25") // only Path was rewritten
	}
	segments := strings.Split(u.RawPath, "/")
	for i, segment := range segments {
		plain, _ := url.PathUnescape(segment) // no error, as for the whole RawPath above
		segments[i] = segmentEscapes.Replace(plain)
	}
	return strings.Join(segments, "/")
}

// segmentEscapes is made once: a path can have a million segments.
var segmentEscapes = strings.NewReplacer("%", "%25", "/", "%2F")

// CanonicalHost returns the same text for equal hosts (RFC 9110, section 4.2.3).
func CanonicalHost(host string) string {
	port := ""
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host, port = host[:i], host[i:]
	}
	switch port {
	case ":", ":80", ":443":
		port = ""
	}
	return strings.ToLower(strings.TrimSuffix(host, ".")) + port
}
