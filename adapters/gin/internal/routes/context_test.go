package routes

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"

	"github.com/gin-gonic/gin"
)

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
	if seen != 2 {
		t.Errorf("%d calls, want 2", seen)
	}
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
