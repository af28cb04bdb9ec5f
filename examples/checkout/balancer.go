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
	dropResponse     fault = "drop-response"
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
	case noFault, dropResponse, killBeforeCharge, killAfterCharge:
	default:
		return v, fmt.Errorf("%s %q: want %s, %s or %s", faultHeader, v.fault, dropResponse, killBeforeCharge, killAfterCharge)
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
			s.tell(notice{What: "no_response", Request: v.request, Pod: p.name})
		}
	}()
	kept := keptResponse{header: make(http.Header)}
	p.guarded.ServeHTTP(&kept, r.WithContext(context.WithValue(r.Context(), visitKey{}, v)))
	if p.isDead() || v.fault == dropResponse {
		panic(http.ErrAbortHandler) // close the connection without sending a byte
	}
	passed = true
	s.tell(notice{What: "responded", Request: v.request, Pod: p.name, Status: kept.status})
	kept.writeTo(w)
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

// keptResponse keeps a pod's response, which is small: a receipt or a problem.
type keptResponse struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (k *keptResponse) Header() http.Header { return k.header }

// WriteHeader implements http.ResponseWriter.
func (k *keptResponse) WriteHeader(status int) {
	if k.status == 0 {
		k.status = status
	}
}

// Write implements http.ResponseWriter.
func (k *keptResponse) Write(p []byte) (int, error) {
	k.WriteHeader(http.StatusOK)
	return k.body.Write(p)
}

func (k *keptResponse) writeTo(w http.ResponseWriter) {
	maps.Copy(w.Header(), k.header)
	if k.status == 0 {
		k.status = http.StatusOK
	}
	w.WriteHeader(k.status)
	w.Write(k.body.Bytes())
}
