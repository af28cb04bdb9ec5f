package policy

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/oncekey/oncekey/failure"
)

// New applies the options to the default policy. The error names every invalid
// field (see Validate) and every nil option.
func New(opts ...Option) (Policy, error) {
	p := Policy{
		TTL:              DefaultTTL,
		LockTTL:          DefaultLockTTL,
		Required:         true,
		Methods:          []string{"POST", "PATCH"},
		MaxRun:           DefaultMaxRun,
		MaxRequestBytes:  DefaultMaxRequestBytes,
		MaxResponseBytes: DefaultMaxResponseBytes,
		StoreTimeout:     DefaultStoreTimeout,
	}
	for _, opt := range opts {
		if opt != nil {
			opt(&p)
		}
	}
	if err := errors.Join(nilOptions(opts), p.Validate()); err != nil {
		return Policy{}, err
	}
	return p, nil
}

// nilOptions returns an error that names every nil option by its position.
func nilOptions(opts []Option) error {
	var all []error
	for i, opt := range opts {
		if opt == nil {
			all = append(all, fmt.Errorf("policy: option %d is nil: leave it out", i+1))
		}
	}
	return errors.Join(all...)
}

// From replaces the whole policy, for example by Parse's result. Later options
// change the copy.
func From(whole Policy) Option { return func(p *Policy) { *p = whole } }

// TTLHours sets Policy.TTL in hours.
func TTLHours(n int) Option { return TTL(hours(n)) }

// TTL sets Policy.TTL as a duration. Text has TTLHours only.
func TTL(d time.Duration) Option { return func(p *Policy) { p.TTL = d } }

// RememberHours sets Policy.Remember in hours, such as RememberHours(720) for 30 days.
func RememberHours(n int) Option { return Remember(hours(n)) }

// Remember sets Policy.Remember as a duration. Text has RememberHours only.
func Remember(d time.Duration) Option { return func(p *Policy) { p.Remember = d } }

// LockTTL sets Policy.LockTTL.
func LockTTL(d time.Duration) Option { return func(p *Policy) { p.LockTTL = d } }

// Required sets Policy.Required.
func Required(required bool) Option { return func(p *Policy) { p.Required = required } }

// KeyField sets Policy.KeyField, such as KeyField("request_id").
func KeyField(path string) Option { return func(p *Policy) { p.KeyField = path } }

// KeyFormat sets Policy.KeyFormat: UUIDKey, or KeyPattern("ord_[0-9]{6}").
func KeyFormat(format KeySyntax) Option { return func(p *Policy) { p.KeyFormat = format } }

// KeyAge sets Policy.KeyAge, such as KeyAge(23*time.Hour) beside a TTL of 24 hours.
func KeyAge(d time.Duration) Option { return func(p *Policy) { p.KeyAge = d } }

// SkipIf sets Policy.SkipIf.
func SkipIf(skip func(*http.Request) bool) Option { return func(p *Policy) { p.SkipIf = skip } }

// ExcludeFields sets Policy.ExcludeFields.
func ExcludeFields(fields ...string) Option {
	return listOf(func(p *Policy) *[]string { return &p.ExcludeFields }, fields)
}

// IncludeFields sets Policy.IncludeFields.
func IncludeFields(fields ...string) Option {
	return listOf(func(p *Policy) *[]string { return &p.IncludeFields }, fields)
}

// IncludeHeaders sets Policy.IncludeHeaders.
func IncludeHeaders(names ...string) Option {
	return listOf(func(p *Policy) *[]string { return &p.IncludeHeaders }, names)
}

// ExactBytes sets Policy.ExactBytes.
func ExactBytes(on bool) Option { return func(p *Policy) { p.ExactBytes = on } }

// Methods sets Policy.Methods.
func Methods(methods ...string) Option {
	return listOf(func(p *Policy) *[]string { return &p.Methods }, methods)
}

// OnStoreError sets Policy.OnStoreError.
func OnStoreError(mode StoreErrorMode) Option { return func(p *Policy) { p.OnStoreError = mode } }

// Wait sets Policy.Wait.
func Wait(d time.Duration) Option { return func(p *Policy) { p.Wait = d } }

// OnAbandoned sets Policy.OnAbandoned: Reexecute, Refuse, or Recover(find).
func OnAbandoned(mode AbandonedMode) Option { return func(p *Policy) { p.OnAbandoned = mode } }

// Transactional sets Policy.Transactional.
func Transactional(on bool) Option { return func(p *Policy) { p.Transactional = on } }

// ObserveOnly sets Policy.ObserveOnly.
func ObserveOnly(on bool) Option { return func(p *Policy) { p.ObserveOnly = on } }

// MaxRun sets Policy.MaxRun.
func MaxRun(d time.Duration) Option { return func(p *Policy) { p.MaxRun = d } }

// MaxRequestBytes sets Policy.MaxRequestBytes.
func MaxRequestBytes(n int64) Option { return func(p *Policy) { p.MaxRequestBytes = n } }

// MaxResponseBytes sets Policy.MaxResponseBytes.
func MaxResponseBytes(n int64) Option { return func(p *Policy) { p.MaxResponseBytes = n } }

// StoreTimeout sets Policy.StoreTimeout.
func StoreTimeout(d time.Duration) Option { return func(p *Policy) { p.StoreTimeout = d } }

// Release sets Policy.Release, such as Release("400", "422").
func Release(statuses ...string) Option { return listOf(released, statuses) }

// Keep sets Policy.Keep, such as Keep("5xx").
func Keep(statuses ...string) Option { return listOf(kept, statuses) }

// Uncertain sets Policy.Uncertain, such as Uncertain("502", "504").
func Uncertain(statuses ...string) Option {
	return listOf(func(p *Policy) *[]string { return &p.Uncertain }, statuses)
}

// Classifier sets Policy.Classifier.
func Classifier(classify func(failure.Outcome) failure.Class) Option {
	return func(p *Policy) { p.Classifier = classify }
}

// RedactFields sets Policy.RedactFields, such as RedactFields("client_secret").
func RedactFields(fields ...string) Option {
	return listOf(func(p *Policy) *[]string { return &p.RedactFields }, fields)
}

// KeepHeaders sets Policy.KeepHeaders.
func KeepHeaders(names ...string) Option {
	return listOf(func(p *Policy) *[]string { return &p.KeepHeaders }, names)
}
