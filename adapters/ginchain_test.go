package adapters_test

import (
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"

	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/policy"
)

// A stored response is final. Error middleware outside, which responds when no handler has,
// must not change the first client's response.
func TestGinResponseIsFinal(t *testing.T) {
	t.Parallel()
	fallback := middleware{gin: func(c *gin.Context) {
		c.Next()
		if len(c.Errors) > 0 && !c.Writer.Written() {
			c.JSON(http.StatusInternalServerError, gin.H{"error": c.Errors.String()})
		}
	}}
	wrapping := middleware{gin: func(c *gin.Context) { c.Writer = valueWriter{c.Writer, nil} }}
	for name, handler := range map[string]gin.HandlerFunc{
		"AbortWithError":   func(c *gin.Context) { _ = c.AbortWithError(http.StatusConflict, errors.New("taken")) },
		"Error and Status": func(c *gin.Context) { _ = c.Error(errors.New("taken")); c.Status(http.StatusConflict) },
		"Error alone":      func(c *gin.Context) { _ = c.Error(errors.New("taken")) },
	} {
		for order, outside := range map[string][]middleware{
			"alone": {fallback}, "within a writer": {wrapping, fallback}, "around a writer": {fallback, wrapping},
		} {
			onCase(t, name+"/"+order, ginRouters, func(t *testing.T, m mounting) {
				s := m.start(t, program{outside: outside, native: handler})
				first := s.do(payment("k"))
				if retry := s.do(payment("k")); isReplay(retry) {
					s.gets(retry, first.Code, first.Body.String())
				}
			})
		}
	}
}

// The guard's own response ends the chain.
func TestGinChainEnds(t *testing.T) {
	t.Parallel()
	later, outside := 0, 0
	s := startGin(t, func(g *idemgin.Guard, e *gin.Engine) {
		e.Use(func(c *gin.Context) {
			c.Next()
			if c.IsAborted() {
				outside++
			}
		})
		e.POST("/payments", g.Policy(), gin.WrapF(created), func(*gin.Context) { later++ })
		e.POST("/decorated", g.Handle(gin.WrapF(created)), func(*gin.Context) { later++ })
	})
	for _, path := range []string{"/payments", "/decorated"} {
		later, outside = 0, 0
		s.do(post(path, "k", amount))
		if later != 1 || outside != 0 {
			t.Errorf("%s: later handlers ran %d times, aborted %d times; want 1 and 0", path, later, outside)
		}
		for _, again := range []*http.Request{post(path, "k", amount), post(path, "k", "{}"), post(path, "", amount)} {
			s.do(again)
		}
		if later != 1 || outside != 3 {
			t.Errorf("%s: later handlers ran %d times, aborted %d times; want 1 and 3", path, later, outside)
		}
	}
}

// limitedBody is the body of gin-contrib/size, which responds itself.
type limitedBody struct {
	io.ReadCloser
	c *gin.Context
}

func (b limitedBody) Read([]byte) (int, error) {
	if !b.c.Writer.Written() {
		b.c.String(http.StatusRequestEntityTooLarge, "too large")
	}
	return 0, errors.New("too large")
}

// A body that responds itself leaves the guard no response to write. Without that, the guard's
// refusal stands behind the 413.
func TestGinBodyThatResponds(t *testing.T) {
	t.Parallel()
	limit := middleware{gin: func(c *gin.Context) { c.Request.Body = limitedBody{c.Request.Body, c} }}
	onRouters(t, ginRouters, func(t *testing.T, m mounting) {
		s := m.start(t, program{outside: []middleware{limit}})
		s.gets(s.do(payment("k")), http.StatusRequestEntityTooLarge, "too large")
		s.ran(0)
	})
}

// A response that has begun before the guard goes on with the handler's, as in gin.
func TestGinResponseBegunOutside(t *testing.T) {
	t.Parallel()
	begins := middleware{gin: func(c *gin.Context) { c.String(http.StatusOK, "outside, ") }}
	onRouters(t, ginRouters, func(t *testing.T, m mounting) {
		s := m.start(t, program{outside: []middleware{begins}, native: func(c *gin.Context) { c.String(http.StatusOK, "inside") }})
		for range 2 { // the second is a replay
			s.gets(s.do(payment("k")), http.StatusOK, "outside, inside")
		}
		s.ran(1)
	})
}

// The guard restores gin's own writer and request.
func TestGinContextIsRestored(t *testing.T) {
	t.Parallel()
	failOpen := []policy.Option{policy.OnStoreError(policy.FailOpen)}
	for name, row := range map[string]struct {
		program program
		key     string
	}{
		"run":                {program{}, "k"},
		"refused":            {program{}, ""},
		"panic":              {program{handler: panicking}, "k"},
		"unprotected":        {program{store: failing(errors.New("down")), policy: failOpen}, "k"},
		"unprotected, panic": {program{store: failing(errors.New("down")), policy: failOpen, handler: panicking}, "k"},
	} {
		onCase(t, name, ginRouters, inABubble(func(t *testing.T, m mounting) {
			p := row.program
			p.outside = []middleware{{gin: func(c *gin.Context) {
				writer, request := c.Writer, c.Request
				defer func() {
					_ = recover()
					if c.Writer != writer || c.Request != request {
						t.Error("gin's context has the guard's writer or request")
					}
				}()
				c.Next()
			}}}
			s := m.start(t, p)
			for range 2 { // the second is a replay if the first is stored
				s.do(payment(row.key))
			}
		}))
	}
}

// An unguarded request has gin's own writer: middleware outside can still change an unsent
// response.
func TestGinPassesThrough(t *testing.T) {
	t.Parallel()
	afterwards := middleware{gin: func(c *gin.Context) {
		c.Next()
		c.Header("X-State", state(c))
	}}
	for name, handler := range map[string]gin.HandlerFunc{
		"Status":          func(c *gin.Context) { c.Status(http.StatusNoContent) },
		"nothing":         func(*gin.Context) {},
		"AbortWithStatus": func(c *gin.Context) { c.AbortWithStatus(http.StatusNoContent) },
		"body":            func(c *gin.Context) { c.String(http.StatusCreated, "hello") },
	} {
		onCase(t, name, ginRouters, func(t *testing.T, m mounting) {
			r := program{outside: []middleware{afterwards}, native: handler, policy: []policy.Option{policy.Required(false)}}
			unkeyed := payment("", withoutKey)
			bare := (&service{Handler: m.bare(r), TB: t}).do(unkeyed).Result()
			got := m.start(t, r).do(unkeyed).Result()
			if got.StatusCode != bare.StatusCode || !equalHeaders(got.Header, bare.Header) {
				t.Errorf("got %d %v\nwant %d %v", got.StatusCode, got.Header, bare.StatusCode, bare.Header)
			}
		})
	}
}

// Error middleware belongs inside the guard, so that its response is stored.
func TestGinErrorMiddlewareInside(t *testing.T) {
	t.Parallel()
	answering := middleware{gin: func(c *gin.Context) {
		c.Next()
		if err := c.Errors.Last(); err != nil {
			c.JSON(http.StatusConflict, gin.H{"error": err.Error()})
		}
	}}
	onRouters(t, ginRouters, func(t *testing.T, m mounting) {
		s := m.start(t, program{
			inside: []middleware{answering},
			native: func(c *gin.Context) { _ = c.Error(errors.New("taken")) },
		})
		first := s.do(payment("k"))
		s.gets(first, http.StatusConflict)
		s.gets(s.replays(payment("k")), first.Code, first.Body.String())
	})
}

// valueWriter is a middleware's writer of a type that cannot be compared.
type valueWriter struct {
	gin.ResponseWriter
	hidden []string
}

func TestGinWriterThatCannotBeCompared(t *testing.T) {
	t.Parallel()
	wrapping := middleware{gin: func(c *gin.Context) { c.Writer = valueWriter{c.Writer, nil} }}
	onRouters(t, ginRouters, func(t *testing.T, m mounting) {
		s := m.start(t, program{outside: []middleware{wrapping}, policy: []policy.Option{policy.Required(false)}})
		s.runsAgain(payment("k"))
		s.replays(payment("k"))
		s.gets(s.do(payment("", withoutKey)), http.StatusCreated)
	})
}
