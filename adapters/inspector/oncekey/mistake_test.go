package main

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/oncekey/oncekey/core"
)

// mistake is planted between the clients and a guard that is right. bare is the handler without its guard.
type mistake func(b *bank, guarded, bare http.Handler) http.Handler

// insteadIf sends some requests to another handler than the guarded one.
func insteadIf(is func(*http.Request) bool, other func(bare http.Handler) http.Handler) mistake {
	return func(_ *bank, guarded, bare http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if is(r) {
				other(bare).ServeHTTP(w, r)
				return
			}
			guarded.ServeHTTP(w, r)
		})
	}
}

// bareIf lets requests around the guard.
func bareIf(is func(*http.Request) bool) mistake {
	return insteadIf(is, func(bare http.Handler) http.Handler { return bare })
}

// refuseIf refuses requests.
func refuseIf(is func(*http.Request) bool, status int) mistake {
	return insteadIf(is, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	})
}

// changed changes responses.
func changed(change func(b *bank, r *http.Request, response *httptest.ResponseRecorder)) mistake {
	return func(b *bank, guarded, _ http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			response := httptest.NewRecorder()
			guarded.ServeHTTP(response, r)
			change(b, r, response)
			maps.Copy(w.Header(), response.Header())
			w.WriteHeader(response.Code)
			_, _ = w.Write(response.Body.Bytes())
		})
	}
}

// otherStatus replaces a status in the responses to a probe, or to all.
func otherStatus(probe string, from, to int) mistake {
	return changed(func(_ *bank, r *http.Request, response *httptest.ResponseRecorder) {
		if response.Code == from && (probe == "" || probe == probeOf(r)) {
			response.Code = to
		}
	})
}

// withoutHeader removes a header field from responses.
func withoutHeader(name string) mistake {
	return changed(func(_ *bank, _ *http.Request, response *httptest.ResponseRecorder) { response.Header().Del(name) })
}

// readsBodyAs changes bodies in front of the guard.
func readsBodyAs(change func(r *http.Request, body []byte) []byte) mistake {
	return func(_ *bank, guarded, _ http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			body = change(r, body)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			guarded.ServeHTTP(w, r)
		})
	}
}

// in matches the requests of probes by the begin of their names.
func in(names ...string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		for _, name := range names {
			if strings.HasPrefix(probeOf(r), name) {
				return true
			}
		}
		return false
	}
}

// second matches the second request of a probe.
func second(is func(*http.Request) bool) func(*http.Request) bool {
	var seen sync.Map
	return func(r *http.Request) bool {
		if !is(r) {
			return false
		}
		_, again := seen.LoadOrStore(r.Header.Get(core.KeyHeader), true)
		return again
	}
}
