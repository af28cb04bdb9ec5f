package verify

import (
	"bytes"
	"context"
	"net/http"
	"time"
)

// Target is the request whose rules are looked at. All fields but the optional ones are
// required.
type Target struct {
	URL         string        // http or https; a name and a password in it are sent as Basic
	Method      string        // such as POST
	Header      http.Header   // is sent with each request to URL and OtherURL
	KeyHeader   string        // the field that carries the key
	QuotedKeys  bool          // keys are in quotes: the draft has them so, and strict servers take no others
	Body        []byte        // of a request to which the server responds 2xx
	OtherBody   []byte        // another payload, that the server would accept too
	FailingBody []byte        // optional: one to which the server responds 5xx
	OtherURL    string        // optional: another endpoint that takes the same method and body
	Concurrency int           // duplicates that are sent at a time
	Timeout     time.Duration // of each request
	MaxRequests int           // of all probes, with the calls of Effects
	// Effects returns the number of effects that the server has had so far. Optional.
	Effects func(context.Context) (int64, error)
	// Hide takes secrets out of a text of the server. Optional.
	Hide func(string) string
}

// request returns a request of a probe to the target.
func (t *Target) request(method, address, key string, body []byte, probe Probe) (*http.Request, error) {
	r, err := http.NewRequest(method, address, bytes.NewReader(body)) //nolint:noctx // send gives the context
	if err != nil {
		return nil, err
	}
	r.GetBody = nil // nothing sends the request a second time
	r.Header = t.Header.Clone()
	if r.Header == nil {
		r.Header = make(http.Header)
	}
	if r.Header.Get("User-Agent") == "" {
		r.Header.Set("User-Agent", "oncekey-verify/"+string(probe))
	}
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
	}
	if user := r.URL.User; user != nil {
		password, _ := user.Password()
		r.SetBasicAuth(user.Username(), password)
	}
	if r.Header.Get("Content-Type") == "" && isObject(body) {
		r.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		if t.QuotedKeys {
			key = `"` + key + `"`
		}
		r.Header.Set(t.KeyHeader, key)
	}
	return r, nil
}
