package explore

import (
	"net/http"
	"time"

	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

// Policy is the route's policy. Pods differ only in Pod.Exclude.
type Policy struct {
	TTL, LockTTL, Wait, StoreTimeout, MaxRun time.Duration
	Remember                                 time.Duration
	FailOpen, Transactional, Observe         bool
	Optional                                 bool // a request without a key runs unguarded
	Keep5xx                                  bool // by a Classifier
	Abandoned                                Abandoned
	MaxResponse                              int64
	Release, Keep, Uncertain                 []string // statuses and classes of statuses
	OnlySuccess                              bool     // the Classifier is failure.OnlySuccess
	Include                                  bool     // pods leave the nonce out by IncludeFields
	KeyField                                 bool     // the key is a member of the body
	OtherHeaders                             bool     // other names of headers, a key format, and headers that count
}

const (
	keyMember  = "request_id" // of a body with the key
	skipHeader = "X-Dry-Run"

	versionHeader = "X-Version"
	otherHeader   = "X-Request-Key" // of the key, with OtherHeaders
)

// Abandoned is the policy's OnAbandoned.
type Abandoned uint8

// The modes of OnAbandoned.
const (
	Reexecute Abandoned = iota
	Refuse
	Recover
)

// options returns the policy's options for one pod.
func (p *Policy) options(exclude bool, classify func(failure.Outcome) failure.Class, find policy.RecoverFunc) []policy.Option {
	options := []policy.Option{
		policy.TTL(p.TTL), policy.Remember(p.Remember), policy.LockTTL(p.LockTTL), policy.Wait(p.Wait),
		policy.StoreTimeout(p.StoreTimeout), policy.MaxRun(p.MaxRun),
		policy.Transactional(p.Transactional), policy.ObserveOnly(p.Observe),
		policy.MaxResponseBytes(p.MaxResponse), policy.Required(!p.Optional),
		policy.Release(p.Release...), policy.Keep(p.Keep...), policy.Uncertain(p.Uncertain...),
		policy.SkipIf(func(r *http.Request) bool { return r.Header.Get(skipHeader) != "" }),
	}
	switch {
	case exclude && p.Include:
		options = append(options, policy.IncludeFields("amount"))
	case exclude:
		options = append(options, policy.ExcludeFields("nonce"))
	}
	if p.KeyField {
		options = append(options, policy.KeyField(keyMember))
	}
	if p.OtherHeaders {
		options = append(options, policy.IncludeHeaders(versionHeader), policy.KeyFormat(policy.KeyPattern("key-[0-9]+")), policy.RedactFields("secret"))
	}
	if p.FailOpen {
		options = append(options, policy.OnStoreError(policy.FailOpen))
	}
	if classify != nil {
		options = append(options, policy.Classifier(classify))
	}
	switch p.Abandoned {
	case Refuse:
		options = append(options, policy.OnAbandoned(policy.Refuse))
	case Recover:
		options = append(options, policy.OnAbandoned(policy.Recover(find)))
	case Reexecute:
	}
	return options
}
