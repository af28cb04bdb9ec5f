package inspector

import (
	"net/http"
	"strings"
)

// screen is a response: a template with its data, or a redirect to another screen.
type screen struct {
	name     string
	status   int // zero: 200
	data     any
	redirect string // relative to the page's root; HTML only
}

// visit is one request of an operator.
type visit struct {
	*http.Request
	operator Operator
}

// Fault is the data of a screen that says why there is no other.
type Fault struct {
	Status int    `json:"status"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
	// Cause is the store's error text, or empty.
	Cause string `json:"cause,omitempty"`
	// Unsettled is the number of results of this process that wait for the store.
	Unsettled int `json:"unsettled,omitempty"`
	// Advice is the next step. Empty: go back to the records.
	Advice string `json:"advice,omitempty"`
}

// faultError is a Fault as an error.
type faultError struct{ Fault }

func (f *faultError) Error() string { return f.Title + ": " + f.Detail }

func fault(status int, title, detail string) error {
	return &faultError{Fault{Status: status, Title: title, Detail: detail}}
}

// wantsJSON reports whether the client accepts JSON and no HTML.
func wantsJSON(r *http.Request) bool {
	accept := r.Header.Get("Accept")
	return strings.Contains(accept, "application/json") && !strings.Contains(accept, "text/html")
}
