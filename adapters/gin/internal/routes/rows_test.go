package routes

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/gin-gonic/gin"
)

func send(t *testing.T, r http.Handler, method, path string) {
	t.Helper()
	r.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody))
}

// Rows find the pattern of a path as gin does.
func TestRowsByPath(t *testing.T) {
	t.Parallel()
	var rows Rows
	var found string
	r := gin.New()
	r.RedirectTrailingSlash = false
	for _, pattern := range []string{
		"/files/*rest", "/payments", "/payments/:id", "/payments/new", "/payments/:id/refund", "/of/:tenant/:id", "/of/acme/:id", "/",
	} {
		rows.Add(http.MethodPost, pattern)
		r.POST(pattern, func(c *gin.Context) { found = c.FullPath() })
	}
	for _, path := range []string{
		"/", "/payments", "/payments/", "/payments/7", "/payments/new", "/payments/newer", "/payments/7/refund", "/payments/7/other", "/payments//refund",
		"/files", "/files/", "/files/a", "/files/a/b/", "/of/acme/7", "/of/other/7", "/of/other/", "/of/other", "/nowhere", "/Payments",
	} {
		found = ""
		send(t, r, http.MethodPost, path)
		if got := rows.find(http.MethodPost, path); got != found {
			t.Errorf("%s is %q, and gin finds %q", path, got, found)
		}
	}
	if got := rows.find(http.MethodGet, "/payments"); got != "" {
		t.Errorf("GET finds the pattern %q of POST", got)
	}
}

// Rows find the method of the route, and not the one that middleware has written. The test
// pins a field of gin.Context, as TestRest does.
func TestRowsByMethod(t *testing.T) {
	t.Parallel()
	var rows Rows
	rows.Add(http.MethodPost, "/all")
	var got []string
	r := gin.New()
	r.Use(func(c *gin.Context) {
		c.Request.Method = http.MethodPut
		method, pattern := rows.Of(c)
		got = append(got, method+" "+pattern)
	})
	r.Any("/all", handle)
	r.POST("/other", handle)
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodPost} {
		send(t, r, method, "/all")
	}
	send(t, r, http.MethodPost, "/other")
	if want := []string{"POST /all", "GET /all", "POST /all", "PUT /other"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	c, _ := gin.CreateTestContext(httptest.NewRecorder())
	c.Request = httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/", http.NoBody)
	if method := rows.methodOf(c); method != http.MethodPut {
		t.Errorf("a context without a route has the method %q, want the request's", method)
	}
}
