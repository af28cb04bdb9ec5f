package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"strconv"
)

// fault is a planned fault of one request.
type fault string

const (
	noFault          fault = ""
	dropAnswer       fault = "drop-answer"
	killBeforeCharge fault = "kill-before-charge"
	killAfterCharge  fault = "kill-after-charge"
)

// The page names a request's fault in these header fields. The engine's fingerprint
// ignores headers, so the fault is not part of the payment.
const (
	requestHeader = "Demo-Request"
	faultHeader   = "Demo-Fault"
)

// visit is one request on its way through the shop.
type visit struct {
	request int // the page's request number
	fault   fault
}

type visitKey struct{}

func visitFrom(ctx context.Context) visit {
	v, _ := ctx.Value(visitKey{}).(visit)
	return v
}

func readVisit(r *http.Request) (visit, error) {
	v := visit{fault: fault(r.Header.Get(faultHeader))}
	switch v.fault {
	case noFault, dropAnswer, killBeforeCharge, killAfterCharge:
	default:
		return v, fmt.Errorf("%s %q: want %s, %s or %s", faultHeader, v.fault, dropAnswer, killBeforeCharge, killAfterCharge)
	}
	number := r.Header.Get(requestHeader)
	if number == "" {
		return v, nil // a request without a number comes from another client, and is not drawn
	}
	var err error
	if v.request, err = strconv.Atoi(number); err != nil || v.request <= 0 {
		return v, fmt.Errorf("%s %q: want a number from 1", requestHeader, number)
	}
	return v, nil
}

// balance sends the request to the next pod, and the response to the browser, unless a
// fault says otherwise. The browser gets a response only after the pod has written all
// of it.
func (s *shop) balance(w http.ResponseWriter, r *http.Request) {
	v, err := readVisit(r)
	if err != nil {
		writeJSON(w, http.StatusBadRequest, message{err.Error()})
		return
	}
	if s.hasStruck(v) {
		panic(http.ErrAbortHandler)
	}
	p := s.pick()
	if p == nil {
		w.Header().Set("Retry-After", "1")
		writeJSON(w, http.StatusServiceUnavailable, message{"no pod is running"})
		return
	}
	s.tell(notice{What: "arrived", Request: v.request, Pod: p.name})
	passed := false
	defer func() {
		if !passed {
			s.tell(notice{What: "unanswered", Request: v.request, Pod: p.name})
		}
	}()
	a := response{header: make(http.Header)}
	p.guarded.ServeHTTP(&a, r.WithContext(context.WithValue(r.Context(), visitKey{}, v)))
	if p.isDead() || v.fault == dropAnswer {
		panic(http.ErrAbortHandler) // close the connection without sending a byte
	}
	passed = true
	s.tell(notice{What: "answered", Request: v.request, Pod: p.name, Status: a.status})
	a.writeTo(w)
}

// hasStruck reports whether the request's fault has struck before. A browser may repeat
// a request after its connection breaks, and the simulated network loses the repetition
// too.
func (s *shop) hasStruck(v visit) bool {
	if v.fault == noFault || v.request == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.request <= s.struck {
		return true
	}
	s.struck = v.request
	return false
}

// response keeps a pod's response, which is small: a receipt or a problem.
type response struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *response) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *response) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Write implements http.ResponseWriter.
func (a *response) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

func (a *response) writeTo(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.header)
	if a.status == 0 {
		a.status = http.StatusOK
	}
	w.WriteHeader(a.status)
	w.Write(a.body.Bytes())
}
