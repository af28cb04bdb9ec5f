package adapters_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/internal/testkit"
)

// startGin runs a gin program that declares its routes itself.
func startGin(t *testing.T, declare func(*idemgin.Guard, *gin.Engine)) *service {
	t.Helper()
	return everywhere(t, func(engine *core.Engine) http.Handler {
		router := gin.New()
		declare(idemgin.New(engine), router)
		return router
	})
}

// ginWriting is a way to write a response with gin's own methods.
type ginWriting struct {
	name    string
	handler gin.HandlerFunc
	streams bool
}

var ginWritings = []ginWriting{
	{name: "JSON", handler: func(c *gin.Context) { c.JSON(201, gin.H{"id": 17}) }},
	{name: "JSON with Location", handler: func(c *gin.Context) { c.Header("Location", "/payments/17"); c.JSON(201, gin.H{"id": 17}) }},
	{name: "String", handler: func(c *gin.Context) { c.String(202, "hello %d", 17) }},
	{name: "Data", handler: func(c *gin.Context) { c.Data(200, "text/csv", []byte("a,b")) }},
	{name: "Data that is empty", handler: func(c *gin.Context) { c.Data(201, "text/csv", nil) }},
	{name: "DataFromReader", handler: func(c *gin.Context) {
		c.DataFromReader(200, 5, "text/plain", strings.NewReader("hello"), map[string]string{"X-Made": "yes"})
	}},
	{name: "Status alone", handler: func(c *gin.Context) { c.Status(201) }},
	{name: "Status 204", handler: func(c *gin.Context) { c.Status(204) }},
	{name: "Status 304", handler: func(c *gin.Context) { c.Header("Etag", `"v1"`); c.Status(304) }},
	{name: "JSON with a status that has no body", handler: func(c *gin.Context) { c.JSON(204, gin.H{"id": 17}) }},
	{name: "nothing", handler: func(*gin.Context) {}},
	{name: "header alone", handler: func(c *gin.Context) { c.Header("X-Made", "yes") }},
	{name: "Redirect", handler: func(c *gin.Context) { c.Redirect(303, "/payments/17") }},
	{name: "AbortWithStatusJSON", handler: func(c *gin.Context) { c.AbortWithStatusJSON(422, gin.H{"error": "no"}) }},
	{name: "AbortWithStatus", handler: func(c *gin.Context) { c.AbortWithStatus(403) }},
	{name: "AbortWithError", handler: func(c *gin.Context) { _ = c.AbortWithError(409, errors.New("taken")) }},
	{name: "SetCookie", handler: func(c *gin.Context) { c.SetCookie("a", "1", 60, "/", "", true, true); c.Status(201) }},

	{name: "Status changed before the body", handler: func(c *gin.Context) { c.Status(500); c.JSON(201, gin.H{"id": 17}) }},
	{name: "Status changed after the body", handler: func(c *gin.Context) { c.String(201, "a"); c.Status(500) }},
	{name: "two bodies", handler: func(c *gin.Context) { c.String(201, "a"); c.JSON(500, gin.H{"b": 1}) }},
	{name: "Status after WriteHeaderNow", handler: func(c *gin.Context) { c.Status(202); c.Writer.WriteHeaderNow(); c.Status(500) }},
	{name: "Status that is none", handler: func(c *gin.Context) { c.Status(-1); c.String(201, "a"); c.Status(0) }},
	{name: "header after Status", handler: func(c *gin.Context) { c.Status(201); c.Header("X-Made", "yes") }},
	{name: "header after the body", handler: func(c *gin.Context) { c.String(201, "a"); c.Header("X-Late", "yes") }},
	{name: "WriteString", handler: func(c *gin.Context) { c.Writer.WriteString("hello") }},
	{name: "io.WriteString", handler: func(c *gin.Context) { io.WriteString(c.Writer, "hello") }}, //nolint:gocritic // the other way to do it
	{name: "io.Copy", handler: func(c *gin.Context) { c.Status(201); _, _ = io.Copy(c.Writer, strings.NewReader("hello")) }},

	{name: "Stream", streams: true, handler: func(c *gin.Context) {
		n := 0
		c.Stream(func(w io.Writer) bool { n++; fmt.Fprintln(w, n); return n < 3 })
	}},
	{name: "SSEvent", streams: true, handler: func(c *gin.Context) { c.SSEvent("paid", "17"); c.Writer.Flush() }},
	{name: "Flush", streams: true, handler: func(c *gin.Context) { c.Status(202); c.Writer.Flush(); c.String(500, "more") }},
}

// gin's own ways to write, against the same handler without a guard.
func TestGinFaithfulness(t *testing.T) {
	t.Parallel()
	for _, row := range ginWritings {
		onCase(t, row.name, ginRouters, func(t *testing.T, m mounting) {
			r := program{native: row.handler}
			s := m.start(t, r)
			client := serveService(s)
			bare := serve(t, m.bare(r), false).send(http.MethodPost)
			first := client.send(http.MethodPost)
			equalSeen(t, "first answer against the bare handler's", first, bare)
			if row.streams {
				client.conflicts(problem.NotReplayable)
			} else {
				equalSeen(t, "replay against the first answer", client.send(http.MethodPost), first.marked())
			}
			s.ran(1)
		})
	}
}

// state is the state of gin's writer.
func state(c *gin.Context) string {
	return fmt.Sprintf("status %d, size %d, written %t", c.Writer.Status(), c.Writer.Size(), c.Writer.Written())
}

// Written, Size and Status equal those of gin's own writer, inside the guard and, after the
// response, outside.
func TestGinWriterState(t *testing.T) {
	t.Parallel()
	steps := []gin.HandlerFunc{
		func(*gin.Context) {},
		func(c *gin.Context) { c.Header("X-Made", "yes") },
		func(c *gin.Context) { c.Status(202) },
		func(c *gin.Context) { c.Status(0) },
		func(c *gin.Context) { c.Status(201) },
		func(c *gin.Context) { c.Writer.WriteHeaderNow() },
		func(c *gin.Context) { c.Writer.WriteHeaderNow() },
		func(c *gin.Context) { c.Writer.Write([]byte("hello")) }, //nolint:gocritic // the other way to do it
		func(c *gin.Context) { c.Status(500) },
		func(c *gin.Context) { c.Writer.WriteString(", world") },
		func(c *gin.Context) { c.Writer.Write(nil) },
	}
	onRouters(t, ginRouters, func(t *testing.T, m mounting) {
		watch := func(seen *[]string) program {
			return program{
				outside: []middleware{{gin: func(c *gin.Context) { c.Next(); *seen = append(*seen, "outside: "+state(c)) }}},
				native: func(c *gin.Context) {
					for _, step := range steps {
						step(c)
						*seen = append(*seen, state(c))
					}
				},
			}
		}
		var bare, guarded []string
		(&service{Handler: m.bare(watch(&bare)), TB: t}).do(payment("k"))
		m.start(t, watch(&guarded)).do(payment("k"))
		for i := range bare {
			if guarded[i] != bare[i] {
				t.Errorf("step %d: %s\nwant    %s", i, guarded[i], bare[i])
			}
		}
	})
}

// A hijacked connection counts as written to, as with gin's own writer.
func TestGinWriterStateAfterHijack(t *testing.T) {
	t.Parallel()
	onRouters(t, ginRouters, func(t *testing.T, m mounting) {
		states := func(seen *[]string) program {
			return program{native: func(c *gin.Context) {
				conn, _, err := c.Writer.Hijack()
				if err != nil {
					panic(err)
				}
				*seen = append(*seen, state(c))
				io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
				conn.Close()
			}}
		}
		var bare, guarded []string
		serve(t, m.bare(states(&bare)), false).send(http.MethodPost)
		serveService(m.start(t, states(&guarded))).send(http.MethodPost)
		testkit.EqualSlices(t, guarded, bare, "the guarded events")
	})
}

// A status that gin still holds back is not sent before the bytes that a handler writes to
// the connection.
func TestGinHijackAfterStatus(t *testing.T) {
	t.Parallel()
	onRouters(t, ginRouters, func(t *testing.T, m mounting) {
		r := program{native: func(c *gin.Context) {
			c.Status(http.StatusAccepted)
			conn, _, err := c.Writer.Hijack()
			if err != nil {
				panic(err)
			}
			io.WriteString(conn, "HTTP/1.1 202 Accepted\r\nContent-Length: 5\r\n\r\nhello")
			conn.Close()
		}}
		bare := serve(t, m.bare(r), false).send(http.MethodPost)
		client := serveService(m.start(t, r))
		equalSeen(t, "first answer against the bare handler's", client.send(http.MethodPost), bare)
		client.conflicts(problem.NotReplayable)
	})
}

// gin's writer takes 103 for the final status and does not send a 103. A later status is
// sent normally. The guard does not change that.
func TestGinSwallowsInformationalResponses(t *testing.T) {
	t.Parallel()
	onRouters(t, ginRouters, func(t *testing.T, m mounting) {
		r := program{handler: then(set("Link", "</a.css>"), answering(http.StatusEarlyHints), created)}
		client := serveService(m.start(t, r))
		bare := serve(t, m.bare(r), false).send(http.MethodPost)
		first := client.send(http.MethodPost)
		equalSeen(t, "first answer against the bare handler's", first, bare)
		equalSeen(t, "replay against the first answer", client.send(http.MethodPost), first.marked())
		if len(first.Interim) != 0 {
			t.Errorf("informational responses: %v; gin now sends informational responses: remove this test", first.Interim)
		}
	})
}
