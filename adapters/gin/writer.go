package idemgin

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"reflect"

	"github.com/gin-gonic/gin"
)

const noWritten = -1 // gin's Size before the first write

// final is gin's writer for the guard's responses.
type final struct {
	gin.ResponseWriter
	written bool // a response had begun before the guard
	ran     bool // the handler has begun
	sent    bool // the guard has begun a response
}

func (w *final) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Sent implements core.SentWriter, for an observed handler, which writes to gin's writer.
func (w *final) Sent() (status int, size int64) { return w.Status(), int64(w.Size()) }

func (w *final) WriteHeader(status int) {
	w.sent = w.sent || !informational(status) && !w.isTaken()
	w.ResponseWriter.WriteHeader(status) // gin ignores a second status
}

func (w *final) Write(p []byte) (int, error) {
	if w.isTaken() {
		return len(p), nil
	}
	w.sent = true
	return w.ResponseWriter.Write(p)
}

// isTaken reports whether middleware outside has responded while the guard read the
// request: the body of gin-contrib/size responds with 413 itself. The guard's refusal of that
// body would be appended.
func (w *final) isTaken() bool { return !w.ran && !w.sent && !w.written && w.Written() }

func (w *final) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w.sent { // gin holds back a status such as 101
		w.WriteHeaderNow()
	}
	w.sent = true
	return w.ResponseWriter.Hijack()
}

// finish sends a status without a body, so that middleware cannot change a stored
// response. It leaves a writer of a middleware alone, because such a writer may need
// the whole response before it sends a header. The exception is a failed handler, whose
// errors make error middleware respond.
func (w *final) finish(failed bool) {
	if w.sent && !w.Written() && (failed || reflect.TypeOf(w.ResponseWriter) == ginsOwn) {
		w.WriteHeaderNow()
	}
}

func informational(status int) bool {
	return status < http.StatusOK && status != http.StatusSwitchingProtocols
}

// writer is a gin.ResponseWriter over the guard's writer. Like gin's own writer it
// holds the status back until the first byte. CloseNotify and Pusher stay with the
// outer writer, because both concern the connection and not the response.
type writer struct {
	gin.ResponseWriter
	captured  http.ResponseWriter
	status    int
	statusSet bool
	size      int
}

var _ gin.ResponseWriter = (*writer)(nil)

func (w *writer) Unwrap() http.ResponseWriter { return w.captured }
func (w *writer) Header() http.Header         { return w.captured.Header() }
func (w *writer) Status() int                 { return w.status }
func (w *writer) Size() int                   { return w.size }
func (w *writer) Written() bool               { return w.size != noWritten }

func (w *writer) WriteHeader(status int) {
	switch {
	case status <= 0:
	case w.Written() || informational(status):
		w.captured.WriteHeader(status) // the guard handles late and informational statuses
	default:
		w.status, w.statusSet = status, true
	}
}

func (w *writer) WriteHeaderNow() {
	if !w.Written() {
		w.size = 0
		w.captured.WriteHeader(w.status)
	}
}

func (w *writer) Write(p []byte) (int, error) {
	w.WriteHeaderNow()
	n, err := w.captured.Write(p)
	w.size += n
	return n, err
}

func (w *writer) WriteString(s string) (int, error) {
	w.WriteHeaderNow()
	n, err := io.WriteString(w.captured, s)
	w.size += n
	return n, err
}

// writeNoRoute responds like gin for an unknown path or method.
func (w *writer) writeNoRoute() {
	switch w.status {
	case http.StatusNotFound:
		w.Header()["Content-Type"] = []string{gin.MIMEPlain}
		_, _ = w.WriteString("404 page not found")
	case http.StatusMethodNotAllowed:
		w.Header()["Content-Type"] = []string{gin.MIMEPlain}
		_, _ = w.WriteString("405 method not allowed")
	}
	w.WriteHeaderNow()
}

func (w *writer) Flush() {
	w.WriteHeaderNow()
	_ = http.NewResponseController(w.captured).Flush()
}

func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.size = max(w.size, 0)
	return http.NewResponseController(w.captured).Hijack()
}
