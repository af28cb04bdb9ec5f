package idemgin

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"
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
