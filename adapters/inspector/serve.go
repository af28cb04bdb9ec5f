package inspector

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/storage"
)

//go:embed web
var web embed.FS

// maxForm bounds the body of a POST: a pasted request body fits.
const maxForm = 4 << 20

func (p *Page) endpoint(needed Right, show func(visit) (screen, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		operator, err := p.authorize(r)
		v := visit{r, operator}
		if err == nil && operator.Name == "" {
			err = errors.New("inspector: authorize returned an Operator without a Name")
		}
		var shown screen
		switch {
		case err != nil:
			challenge(w, err)
			v.operator = Operator{}
			err = fault(http.StatusUnauthorized, "Sign in first", "The inspector is for operators of this service.")
		case !operator.may(needed):
			err = fault(http.StatusForbidden, "Your sign-in does not allow this",
				"You may "+operator.May.String()+". This needs the right to "+(needed&^operator.May).String()+".")
		case r.Method == http.MethodPost && r.ParseForm() != nil:
			err = fault(http.StatusBadRequest, "The form cannot be read", "Send it as application/x-www-form-urlencoded, with at most 4 MiB.")
		default:
			shown, err = show(v)
		}
		if err != nil {
			shown = p.failed(err)
		}
		p.write(w, v, shown)
	})
}

// failed returns the screen of an error. An error that is no Fault is the store's.
func (p *Page) failed(err error) screen {
	var f *Fault
	known, isFault := errors.AsType[*faultError](err)
	switch {
	case isFault:
		f = &known.Fault
	case errors.Is(err, storage.ErrCorruptRecord):
		f = &Fault{
			Status: http.StatusBadGateway, Title: "This program cannot read the record", Cause: err.Error(),
			Detail: "A newer version may have written it, its seal needs a key that this program lacks, or another program writes under the same names. Requests with its key get 503 until it is gone.",
			Advice: "Upgrade this service, give it the key of the seal again, or find out who else writes here.",
		}
	case errors.Is(err, storage.ErrUnreadable):
		f = &Fault{
			Status: http.StatusBadGateway, Title: "The record cannot be read at the moment", Cause: err.Error(),
			Detail: "It is sealed, and the service that has its key cannot be reached. Requests with its key get 503 meanwhile.",
		}
	default:
		f = p.storeFailed(err)
	}
	return screen{name: "fault", status: f.Status, data: f}
}

// storeFailed describes a store that fails, and the consequences.
func (p *Page) storeFailed(err error) *Fault {
	closed, open := 0, 0
	for _, route := range p.engine.Routes() {
		if declared := route.Policy(); declared.OnStoreError.String() == "FailOpen" {
			open++
		} else {
			closed++
		}
	}
	failed := &Fault{
		Status: http.StatusServiceUnavailable, Title: "The store has failed", Cause: err.Error(),
		Detail: fmt.Sprintf("Of this service's guarded routes, %d respond with 503 meanwhile (FailClosed), and %d run unprotected (FailOpen).", closed, open),
		Advice: "Mend the store, then try again.", Unsettled: p.waiting(),
	}
	switch {
	case errors.Is(err, storage.ErrStoreForbidden):
		failed.Title, failed.Advice = "The store refuses this process", "Give this process the right, then try again."
		failed.Detail = "A right is missing. If requests need it too, guarded routes respond with 503 meanwhile, with FailOpen too."
	case closed+open == 0: // as over the command's own store
		failed.Detail = "Guarded routes respond with 503 meanwhile (FailClosed), or run unprotected (FailOpen)."
	}
	return failed
}

// waiting returns the number of results of this process that wait for the store.
func (p *Page) waiting() (n int) {
	for _, run := range p.engine.Running() {
		if run.Unsettled > 0 {
			n++
		}
	}
	return n
}

// shell is the data of every HTML page around its screen. Store and Instance are empty for
// a person who may not read.
type shell struct {
	Screen, Root    string
	Operator        Operator
	Store, Instance string
	Data            any
}

func (p *Page) write(w http.ResponseWriter, v visit, s screen) {
	if s.status == 0 {
		s.status = http.StatusOK
	}
	root := "./" + strings.Repeat("../", max(0, strings.Count(v.URL.Path, "/")-1))
	switch {
	case wantsJSON(v.Request):
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(s.status)
		_ = json.NewEncoder(w).Encode(s.data) // a client that is gone needs no error
	case s.redirect != "":
		w.Header().Set("Location", root+s.redirect)
		w.WriteHeader(http.StatusSeeOther)
	default:
		var html strings.Builder
		around := shell{Screen: s.name, Root: root, Operator: v.operator, Data: s.data}
		if v.operator.may(Read) {
			around.Store, around.Instance = p.records.Store(), p.records.Instance()
		}
		err := p.templates.ExecuteTemplate(&html, s.name+".html", around)
		if err != nil {
			http.Error(w, "inspector: the page cannot be written", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(s.status)
		_, _ = visible.WriteString(w, html.String())
	}
}

// visible shows controls but tabs and line breaks, and the characters by which a text of others would turn around the page's
// own text behind it.
var visible = func() *strings.Replacer {
	var shown []string
	for _, r := range "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069" {
		shown = append(shown, string(r), fmt.Sprintf(`\u%04x`, r))
	}
	for r := range rune('\u00a0') {
		if unicode.IsControl(r) && !strings.ContainsRune("\t\n\r", r) {
			shown = append(shown, string(r), fmt.Sprintf(`\u%04x`, r))
		}
	}
	return strings.NewReplacer(shown...)
}()

func challenge(w http.ResponseWriter, err error) {
	if value := core.ChallengeOf(err); value != "" {
		w.Header().Set("Www-Authenticate", value)
	}
}

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

// within returns the visit with an end of its calls at the store: a browser, and a frozen server, wait for ever.
func (v visit) within(limit time.Duration) (visit, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(v.Context(), limit)
	return visit{v.WithContext(ctx), v.operator}, cancel
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
