package idemgin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/internal/testkit"
)

// gin's engine is found however deep it is, in any order, and not on another goroutine.
func TestOwnsContextAtAnyDepth(t *testing.T) {
	t.Parallel()
	for _, depth := range []int{0, 3, 1, 40, 2} { // 40 middlewares take more callers than one look has
		var here, elsewhere bool
		handlers := make([]gin.HandlerFunc, depth, depth+1)
		for i := range handlers {
			handlers[i] = func(c *gin.Context) { c.Next() }
		}
		engine := gin.New()
		engine.POST("/", append(handlers, func(c *gin.Context) {
			here = ownsContext(c)
			done := make(chan struct{})
			go func() {
				defer close(done)
				elsewhere = ownsContext(c)
			}()
			<-done
		})...)
		engine.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil))
		if !here || elsewhere {
			t.Errorf("behind %d middlewares: the handler's goroutine owns its context %t, another one %t, want true and false", depth, here, elsewhere)
		}
	}
}

// A test may call HandleContext itself: the refusal says what to call.
func TestHandleContextWithoutServeHTTP(t *testing.T) {
	t.Parallel()
	engine, err := core.New(memstore.New(), core.SharedScope)
	testkit.Must(t, err)
	response := httptest.NewRecorder()
	c, router := gin.CreateTestContext(response)
	router.POST("/", New(engine).Policy(), func(*gin.Context) { t.Error("a handler has run") })
	c.Request = httptest.NewRequest(http.MethodPost, "/", nil)
	if router.HandleContext(c); !strings.Contains(response.Body.String(), "a test calls HandleContext: call ServeHTTP") {
		t.Errorf("the response is %d %s", response.Code, response.Body)
	}
}
