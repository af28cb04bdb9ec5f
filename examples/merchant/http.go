package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/oncekey/oncekey/failure"
)

// protocol is the form of requests and responses.
type protocol interface {
	// identify is middleware that refuses requests without a client.
	identify(next http.Handler) http.Handler
	// items and token read the body of a request.
	items(r *http.Request) ([]want, error)
	token(r *http.Request) (string, error)
	// session writes a session, and fault an error.
	session(w http.ResponseWriter, status int, s *session)
	fault(w http.ResponseWriter, f fault)
}

// checkout serves the shop in the form of a protocol.
type checkout struct {
	shop *shop
	form protocol
}

// serve is the handler of an operation. The status is that of its success.
func (c checkout) serve(status int, operation func(*http.Request) (session, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		done, err := operation(r)
		if err == nil {
			c.form.session(w, status, &done)
			return
		}
		f := faultOf(err)
		switch f.status {
		case http.StatusConflict: // the same request may run again later
			failure.MarkRetryable(r.Context())
			w.Header().Set("Retry-After", "1")
		case http.StatusServiceUnavailable:
			slog.ErrorContext(r.Context(), "a request failed", "error", err)
		}
		c.form.fault(w, f)
	}
}

func (c checkout) create(r *http.Request) (session, error) {
	wanted, err := c.form.items(r)
	if err != nil {
		return session{}, err
	}
	return c.shop.create(r.Context(), owner(r), wanted)
}

func (c checkout) update(r *http.Request) (session, error) {
	wanted, err := c.form.items(r)
	if err != nil {
		return session{}, err
	}
	return c.shop.update(r.Context(), owner(r), r.PathValue("id"), wanted)
}

func (c checkout) complete(r *http.Request) (session, error) {
	token, err := c.form.token(r)
	if err != nil {
		return session{}, err
	}
	return c.shop.complete(r.Context(), owner(r), r.PathValue("id"), token)
}

func (c checkout) cancel(r *http.Request) (session, error) {
	return c.shop.cancel(r.Context(), owner(r), r.PathValue("id"))
}

func (c checkout) show(r *http.Request) (session, error) {
	return load(r.Context(), c.shop.db, owner(r), r.PathValue("id"))
}

// fault is an error as clients see it.
type fault struct {
	status              int
	code, path, message string // the path is a JSONPath (RFC 9535), or empty
}

const unavailable = "item_unavailable" // the shop has no such item

func faultOf(err error) fault {
	var invalid *invalidError
	switch {
	case errors.As(err, &invalid):
		return fault{http.StatusBadRequest, invalid.code, invalid.path, invalid.message}
	case errors.Is(err, errNotFound):
		return fault{http.StatusNotFound, "not_found", "", err.Error()}
	case errors.Is(err, errClosed):
		return fault{http.StatusMethodNotAllowed, "session_closed", "", err.Error()}
	case errors.Is(err, errBusy):
		return fault{http.StatusConflict, "session_in_progress", "", err.Error()}
	default:
		return fault{http.StatusServiceUnavailable, "try_again", "", "send the same request with the same key again"}
	}
}

type clientKey struct{}

// withClient adds the authenticated client to a request.
func withClient(r *http.Request, client string) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), clientKey{}, client))
}

// clientBy names a client by a hash of its credential, which is not stored itself.
func clientBy(protocol, credential string) string {
	sum := sha256.Sum256([]byte(credential))
	return protocol + ":" + hex.EncodeToString(sum[:8])
}

// clientOf is the engines' scope and the owner of sessions: a key belongs to its client.
func clientOf(r *http.Request) (string, error) {
	client, _ := r.Context().Value(clientKey{}).(string)
	return client, nil // an empty client gets a 401
}

func owner(r *http.Request) string {
	client, _ := clientOf(r)
	return client
}

// read decodes the body of a request. The guard has limited its size.
func read(r *http.Request, into any) error {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		return invalid("$", "the body is not the JSON of this request: "+err.Error())
	}
	return nil
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil { // the responses are structs of strings and numbers
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(body, '\n'))
}

// invalidError is a mistake of the client.
type invalidError struct{ code, path, message string }

func invalid(path, message string) error { return &invalidError{"invalid", path, message} }

func (e *invalidError) Error() string { return e.path + ": " + e.message }

// limits of a request, so that a total cannot overflow.
const (
	mostLines     = 100
	mostOfOneItem = 1000
)

// want is an item and its quantity, as an agent asks for it.
type want struct {
	id       string
	quantity int64
	path     string // of the id in the request
}

// checked returns an error that names the first mistake.
func checked(member string, wanted []want) ([]want, error) {
	if len(wanted) == 0 || len(wanted) > mostLines {
		return nil, invalid("$."+member, fmt.Sprintf("has %d elements, give 1 to %d", len(wanted), mostLines))
	}
	for i, one := range wanted {
		if one.quantity < 1 || one.quantity > mostOfOneItem {
			path := fmt.Sprintf("$.%s[%d].quantity", member, i)
			return nil, invalid(path, fmt.Sprintf("is %d, give 1 to %d", one.quantity, mostOfOneItem))
		}
	}
	return wanted, nil
}
