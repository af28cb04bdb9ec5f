package adapters_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/internal/testkit"
)

// A guard around a whole gin.Engine: Stream asks each writer for the end of the connection, and panics without it.
func TestGinInsideTheGuardStreams(t *testing.T) {
	t.Parallel()
	var runs atomic.Int32
	router := gin.New()
	router.POST("/payments", func(c *gin.Context) {
		runs.Add(1)
		left := 3
		c.Stream(func(w io.Writer) bool {
			fmt.Fprint(w, left)
			left--
			return left > 0
		})
	})
	server := httptest.NewServer(engineFor(t).Handler(router))
	t.Cleanup(server.Close)
	for _, want := range []int{http.StatusOK, http.StatusConflict} { // a response that streamed is not replayed
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/payments", strings.NewReader(amount))
		testkit.Must(t, err)
		request.Header.Set(core.KeyHeader, "k")
		request.Header.Set("Content-Type", "application/json")
		response, err := server.Client().Do(request)
		testkit.Must(t, err)
		body, err := io.ReadAll(response.Body)
		testkit.Must(t, err)
		response.Body.Close()
		if response.StatusCode != want || want == http.StatusOK && string(body) != "321" {
			t.Errorf("got %d %q, want %d", response.StatusCode, body, want)
		}
	}
	testkit.Equal(t, runs.Load(), 1, "runs of the handler")
}
