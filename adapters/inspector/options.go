package inspector

import (
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/oncekey/oncekey/core"
)

// Right is a set of actions that an operator may take.
type Right uint8

// The rights of an Operator. Settle and Reveal mean little without Read.
const (
	// Read shows records without their bodies, routes, runs and the doctor's findings.
	Read Right = 1 << iota
	// Reveal shows the masked body of a stored response, and reports an event.
	Reveal
	// Settle settles abandoned records and forgets finished records, and reports an event.
	Settle
)

// Operator is the person who uses the page.
type Operator struct {
	// Name is in the events of changes by hand. Required.
	Name string
	May  Right
}

func (o Operator) may(needed Right) bool { return o.May&needed == needed }

// Authorize returns the operator of a request, or an error for a person who may not use the
// page. The response is then 401, with the challenge of core.Challenge if the error has
// one. Authorize must be safe for concurrent use.
type Authorize func(*http.Request) (Operator, error)

// Page is the inspector as a http.Handler. It is safe for concurrent use.
type Page struct {
	engine    *core.Engine
	records   *core.Inspector
	authorize Authorize
	redact    func(contentType string, body []byte) []byte // nil: none
	headers   []string                                     // canonical
	derived   []string
	logLink   string // with %s for the record, or ""
	events    *Events
	handler   http.Handler
	templates *template.Template
}

// Option changes a Page's defaults.
type Option func(*Page) error

// Redact masks the bodies that Reveal shows. The function gets a JSON body after the
// masking by names (see the package comment), and every other body as it is stored. It
// returns the text to show, must not change body, and must be safe for concurrent use.
// Default: a body that is not JSON is not shown.
func Redact(mask func(contentType string, body []byte) []byte) Option {
	return func(p *Page) error {
		if mask == nil {
			return errors.New("inspector: Redact is given nil: give a function, or leave the option out")
		}
		p.redact = mask
		return nil
	}
}

// neverShown are response headers that carry credentials without a word that says so.
var neverShown = []string{"Www-Authenticate", "Proxy-Authenticate", "Authentication-Info", "Proxy-Authentication-Info"}

// Headers lists the response headers whose values the page shows. The other headers appear
// by name only. Default Content-Type and Location, of which the parameters are masked by
// their names as members of a body are. Headers that carry credentials are an error:
// Set-Cookie, and those with a word such as token, secret or apikey in the name.
func Headers(names ...string) Option {
	return func(p *Page) error {
		p.headers = nil
		for _, name := range names {
			canonical := textproto.CanonicalMIMEHeaderKey(name)
			if slices.Contains(neverShown, canonical) || isCredential(canonical) {
				return fmt.Errorf("inspector: Headers is given %q: its value is a credential, and never shown", name)
			}
			p.headers = append(p.headers, canonical)
		}
		return nil
	}
}

// Derived lists the names that the service's handlers pass to core.DeriveKey. The page of a
// record shows the derived keys, so that an operator can ask the other service for them.
// Default none.
func Derived(names ...string) Option {
	return func(p *Page) error {
		p.derived = names
		return nil
	}
}

// LogLink is the address of the log's search, with %s in the place of the record's id. The
// page of a record has a link to it. Default: no link.
//
//	inspector.LogLink("https://logs.example.com/?q=record:%s")
func LogLink(address string) Option {
	return func(p *Page) error {
		if parsed, err := url.Parse(strings.ReplaceAll(address, "%s", "x")); strings.Count(address, "%s") != 1 ||
			err != nil || parsed.Scheme != "https" && parsed.Scheme != "http" {
			return fmt.Errorf("inspector: LogLink is given %q: give a http or https URL with one %%s, such as https://logs.example.com/?q=record:%%s", address)
		}
		p.logLink = address
		return nil
	}
}

// Remembered shows the events of this process beside the records. Give the Events that the
// engine's observer is, or wraps. Default: the page shows records only.
func Remembered(events *Events) Option {
	return func(p *Page) error {
		if events == nil {
			return errors.New("inspector: Remembered is given nil: give Remember's result, or leave the option out")
		}
		p.events = events
		return nil
	}
}

// String names the rights: "read, reveal and settle".
func (r Right) String() string {
	var names []string
	for _, one := range []struct {
		right Right
		name  string
	}{{Read, "read"}, {Reveal, "reveal"}, {Settle, "settle"}} {
		if r&one.right != 0 {
			names = append(names, one.name)
		}
	}
	switch last := len(names) - 1; last {
	case -1:
		return "not even read"
	case 0:
		return names[0]
	default:
		return strings.Join(names[:last], ", ") + " and " + names[last]
	}
}
