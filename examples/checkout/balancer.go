package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"strconv"
)

// fault is what is to happen to one request.
type fault string

const (
	noFault          fault = ""
	dropAnswer       fault = "drop-answer"
	killBeforeCharge fault = "kill-before-charge"
	killAfterCharge  fault = "kill-after-charge"
)

// The page says with these what is to happen. They are no part of the payment:
// the engine's fingerprint does not look at headers.
const (
	requestHeader = "Demo-Request"
	faultHeader   = "Demo-Fault"
)

// visit is one request on its way through the shop.
type visit struct {
	request int // the page's number for it
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
		return v, nil // somebody's own client: it is not drawn
	}
	var err error
	if v.request, err = strconv.Atoi(number); err != nil || v.request <= 0 {
		return v, fmt.Errorf("%s %q: want a number from 1", requestHeader, number)
	}
	return v, nil
}

// balance gives the request to the pod whose turn it is, and the answer to the
// browser, unless a fault has it otherwise. An answer is on its way only when the
// pod has given it whole.
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
	a := answer{header: make(http.Header)}
	p.guarded.ServeHTTP(&a, r.WithContext(context.WithValue(r.Context(), visitKey{}, v)))
	if p.isDead() || v.fault == dropAnswer {
		panic(http.ErrAbortHandler) // the connection is closed without a byte
	}
	passed = true
	s.tell(notice{What: "answered", Request: v.request, Pod: p.name, Status: a.status})
	a.writeTo(w)
}

// hasStruck reports whether the request's fault has struck before: browsers may send
// a request again by themselves when its connection breaks, and the network that
// loses one packet loses its repetition too.
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

// answer keeps what a pod answers. The pods' answers are small: a receipt or a problem.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

func (a *answer) writeTo(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.header)
	if a.status == 0 {
		a.status = http.StatusOK
	}
	w.WriteHeader(a.status)
	w.Write(a.body.Bytes())
}
