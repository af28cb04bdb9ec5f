package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/oncekey/oncekey/core/problem"
)

// maxWritten is the length of a problem's body, in bytes, above which Merge refuses it.
const maxWritten = 64 << 10

// written is the response of the program's problem.Writer to the problem of one code.
type written struct {
	by         *engineResponse // which has the code in the engine's own form
	code       code
	status     int
	mediaType  string // without parameters; "" for a response without a body
	body       string // as JSON: a text is a string
	retryAfter string // the header's value, or ""
}

// write calls a program's writer as the engine does.
func write(by problem.Writer, r *http.Request, p *problem.Problem) (written, error) {
	recorded := recorder{header: make(http.Header)}
	p.SetHeader(recorded.header)
	if err := recorded.run(by, r, *p); err != nil {
		return written{}, err
	}
	w := written{status: recorded.status, retryAfter: recorded.header.Get("Retry-After")}
	if len(recorded.body) == 0 || recorded.status == http.StatusNoContent || recorded.status == http.StatusNotModified {
		return w, nil
	}
	var err error
	w.mediaType, w.body, err = bodyOf(recorded.header.Get("Content-Type"), recorded.body)
	return w, err
}

// bodyOf returns a body's media type and the body as JSON. Without a type, the type is
// the one that net/http finds in the body.
func bodyOf(contentType string, body []byte) (mediaType, value string, err error) {
	if contentType == "" {
		contentType = http.DetectContentType(body)
	}
	mediaType, _, err = mime.ParseMediaType(contentType)
	if err != nil || !strings.Contains(mediaType, "/") {
		return "", "", fmt.Errorf("writes the Content-Type %q: it must be a media type, such as application/json", contentType)
	}
	if mediaType != "application/json" && !strings.HasSuffix(mediaType, "+json") {
		return mediaType, quoted(string(body)), nil
	}
	var text bytes.Buffer
	if err := json.Compact(&text, body); err != nil {
		return "", "", fmt.Errorf("writes %s that is not JSON: %w", mediaType, err)
	}
	if !utf8.Valid(body) {
		return "", "", fmt.Errorf("writes %s that is not UTF-8", mediaType)
	}
	return mediaType, text.String(), nil
}

// recorder is the writer's http.ResponseWriter. As in the engine, the header counts as it
// is after the call.
type recorder struct {
	header http.Header
	status int
	body   []byte
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

var errLong = fmt.Errorf("writes more than %d bytes: a problem must be shorter", maxWritten)

func (r *recorder) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	n := min(len(b), maxWritten+1-len(r.body)) // one byte above the limit shows that it is passed
	r.body = append(r.body, b[:n]...)
	if len(r.body) > maxWritten {
		return n, errLong
	}
	return n, nil
}

// run calls the writer. The error continues a sentence about the writer.
func (r *recorder) run(write problem.Writer, about *http.Request, p problem.Problem) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panics: %v", reason)
		}
	}()
	write(r, about, p)
	switch {
	case r.status == 0:
		return errors.New("writes no status and no body: it must write a response")
	case r.status < 200 || r.status > 599:
		return fmt.Errorf("writes the status %d: it must be from 200 to 599", r.status)
	case len(r.body) > maxWritten:
		return errLong
	}
	return nil
}
