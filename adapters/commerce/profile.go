package commerce

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

// Profile has the rules of one protocol. Its functions are safe for concurrent use.
type Profile struct {
	// Policy is the policy of the protocol's routes: policy.From(profile.Policy).
	Policy policy.Policy
	// Check refuses a policy that breaks a rule of the protocol: core.WithPolicyCheck.
	Check func(*policy.Policy) error
	// WriteProblem writes problems with the protocol's codes, statuses and bodies:
	// core.WithProblemWriter, and openapi.ProblemWriter for the document.
	WriteProblem problem.Writer
	// ReplayHeader marks a replay: core.WithReplayHeader. Empty means the engine's default.
	ReplayHeader string
	// EchoKey sends the key back with every response: core.WithKeyEcho.
	EchoKey bool
}

// Options returns the options of an engine that serves the protocol. Options that follow
// them in core.New win.
func (p Profile) Options() []core.Option {
	options := []core.Option{core.WithProblemWriter(p.WriteProblem), core.WithPolicyCheck(p.Check)}
	if p.ReplayHeader != "" {
		options = append(options, core.WithReplayHeader(p.ReplayHeader))
	}
	if p.EchoKey {
		options = append(options, core.WithKeyEcho())
	}
	return options
}

// must returns the policy of options that are constants of this package.
func must(opts ...policy.Option) policy.Policy {
	p, err := policy.New(opts...)
	if err != nil {
		panic(err)
	}
	return p
}

// contradictions are the rules of a protocol that a policy breaks.
type contradictions []error

// unless adds a contradiction, unless the policy keeps the rule. want ends with the rule's
// section.
func (c *contradictions) unless(kept bool, field string, value any, want string) {
	if !kept {
		*c = append(*c, &policy.FieldError{Field: field, Value: value, Want: want})
	}
}

func (c *contradictions) joined() error { return errors.Join(*c...) }

// keeps returns the first status from this one on whose response the policy would not release,
// or 0. uncertain says that it may leave the key to OnAbandoned.
func keeps(p *policy.Policy, from int, uncertain bool) int {
	for status := from; status <= 599; status++ {
		class := p.Classify(failure.Outcome{Status: status})
		if class == failure.ClassCache || class == failure.ClassUncertain && !uncertain {
			return status
		}
	}
	return 0
}

// respond writes an error of a protocol.
func respond(w http.ResponseWriter, status int, body any) {
	text, _ := json.Marshal(body) // texts and numbers always marshal
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(text) //nolint:errcheck // a disconnected client needs no error
}

// codeOf returns the protocol's code for a problem, or the engine's where the protocol has
// none.
func codeOf(codes map[string]string, p *problem.Problem) string {
	if code, has := codes[p.Code]; has {
		return code
	}
	return p.Code
}
