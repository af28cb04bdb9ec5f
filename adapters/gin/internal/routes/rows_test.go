package routes

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"

	"github.com/gin-gonic/gin"
	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/internal/testkit"
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
		testkit.Equal(t, rows.find(http.MethodPost, path), found, "the route of %s", path)
	}
	testkit.Equal(t, rows.find(http.MethodGet, "/payments"), "", "the pattern that GET finds")
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
	testkit.EqualSlices(t, got, []string{"POST /all", "GET /all", "POST /all", "PUT /other"}, "the routes")
	c, _ := gin.CreateTestContext(httptest.NewRecorder())
	c.Request = httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/", http.NoBody)
	testkit.Equal(t, rows.methodOf(c), http.MethodPut, "a context without a route has the method")
}

// The test pins the fields of gin.Context. If it fails with a new version of gin, guards
// refuse requests whose chain they cannot see, and Rest must learn the new fields.
func TestRest(t *testing.T) {
	t.Parallel()
	var left []int
	look := func(c *gin.Context) {
		rest, known := Rest(c)
		if !known {
			t.Error("this version of gin has other fields")
		}
		left = append(left, len(rest))
	}
	r := gin.New()
	r.Use(look)
	r.POST("/", look, func(c *gin.Context) { c.Abort(); look(c) })
	r.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody))
	if want := []int{2, 1, 0}; !reflect.DeepEqual(left, want) {
		t.Errorf("the handlers left are %v, want %v", left, want)
	}
}

// Running is the function that gin has called, and not one that it calls.
func TestRunning(t *testing.T) {
	t.Parallel()
	seen := 0
	var self gin.HandlerFunc = func(c *gin.Context) {
		if Running(c) == nil || c.Handler() == nil {
			t.Error("no handler runs")
		}
		seen++
	}
	r := gin.New()
	r.POST("/", self, func(c *gin.Context) {
		self(c)
		c.Abort()
		if Running(c) != nil {
			t.Error("a handler runs in an aborted context")
		}
	})
	r.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody))
	testkit.Equal(t, seen, 2, "calls")
	if Running(new(gin.Context)) != nil {
		t.Error("a handler runs in an empty context")
	}
}

func TestUnknownContexts(t *testing.T) {
	t.Parallel()
	for name, shape := range map[string]reflect.Type{
		"no handlers": reflect.TypeFor[struct{ index int8 }](),
		"no index":    reflect.TypeFor[struct{ handlers gin.HandlersChain }](),
		"other handlers": reflect.TypeFor[struct {
			handlers []int
			index    int8
		}](),
		"a wide index": reflect.TypeFor[struct {
			handlers gin.HandlersChain
			index    int
		}](),
	} {
		if _, _, known := contextFields(shape); known {
			t.Errorf("%s: taken for gin's fields", name)
		}
	}
}

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode) // debug mode prints every route
	goleak.VerifyTestMain(m)
}
