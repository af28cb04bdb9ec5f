package declared

import "testing"

// A middleware is named after its package, wherever the build found its source. Without that, a
// compressing one stood inside the guard unseen, and chi's Timeout was called misplaced.
func TestNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		function, file, want string
		misplaced            bool
	}{
		{"github.com/CAFxX/httpcompression.Adapter.func2", "/go/pkg/mod/github.com/!c!a!fx!x/httpcompression@v0.0.9/adapter.go", "github.com/CAFxX/httpcompression.Adapter.func2", true},
		{"github.com/x/gzip.Pack", "/cache/github.com/x/gzip@v1.2.5/handler.go", "github.com/x/gzip.Pack", true},
		{"github.com/x/y/v2/log.New", "/shop/vendor/github.com/x/y/v2/log/new.go", "github.com/x/y/v2/log.New", false},
		{"main.main.New.func1", "/go/pkg/mod/github.com/x/brotli@v1.0.0/handler.go", "github.com/x/brotli (handler.go:7)", true},
		{"main.main.New.func1", "/shop/vendor/github.com/x/brotli/handler.go", "github.com/x/brotli (handler.go:7)", true},
		{"main.main.Timeout.func1", "/cache/github.com/go-chi/chi/v5@v5.5.0/middleware/timeout.go", "/cache/github.com/go-chi/chi/v5/middleware (timeout.go:7)", false},
		{"main.main.Timeout.func1", "/shop/vendor/github.com/go-chi/chi/v5/middleware/timeout.go", "github.com/go-chi/chi/v5/middleware (timeout.go:7)", false},
		{"main.main.BasicAuth.func1", "/cache/github.com/go-chi/chi/v5@v5.5.0/middleware/basic_auth.go", "/cache/github.com/go-chi/chi/v5/middleware (basic_auth.go:7)", true},
		{"github.com/gin-gonic/gin.BasicAuthForRealm.func1", "/cache/github.com/gin-gonic/gin@v1.12.0/auth.go", "github.com/gin-gonic/gin.BasicAuthForRealm.func1", true},
		{"main.main.func1", "/home/me/shop/main.go", "main.main.func1", false},
		{"main.main.func1", "example.com/shop/main.go", "main.main.func1", false},
	} {
		got := named(c.function, c.file, 7)
		if reason := Misplaced(got); got != c.want || (reason != "") != c.misplaced {
			t.Errorf("%s in %s: got %q, misplaced by %q, want %q", c.function, c.file, got, reason, c.want)
		}
	}
}
