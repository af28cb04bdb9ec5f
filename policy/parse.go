package policy

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// setting reads one annotation value into an option.
type setting struct {
	name string
	want string // what a right value looks like
	read func(value string) (Option, error)
}

// settings are all that an annotation can say. Classifier and Recover take
// functions and cannot be written as text.
var settings = []setting{
	{"TTLHours", "a whole number of hours", with(strconv.Atoi, TTLHours)},
	{"TTL", "a duration such as 90m", with(time.ParseDuration, TTL)},
	{"LockTTL", "a duration such as 60s", with(time.ParseDuration, LockTTL)},
	{"Required", "true or false", with(strconv.ParseBool, Required)},
	{"ExcludeFields", "names parted by commas", with(parseList, func(names []string) Option { return ExcludeFields(names...) })},
	{"Methods", "methods parted by commas", with(parseList, func(names []string) Option { return Methods(names...) })},
	{"OnStoreError", "FailClosed or FailOpen", with(parseStoreErrorMode, OnStoreError)},
	{"Wait", "a duration such as 2s", with(time.ParseDuration, Wait)},
	{"OnAbandoned", "Reexecute or Refuse", with(parseAbandonedMode, OnAbandoned)},
	{"Transactional", "true or false", with(strconv.ParseBool, Transactional)},
	{"Observe", "true or false", with(strconv.ParseBool, Observe)},
	{"MaxRun", "a duration such as 15m", with(time.ParseDuration, MaxRun)},
	{"MaxRequestBytes", "a whole number of bytes", with(parseBytes, MaxRequestBytes)},
	{"MaxResponseBytes", "a whole number of bytes", with(parseBytes, MaxResponseBytes)},
	{"StoreTimeout", "a duration such as 500ms", with(time.ParseDuration, StoreTimeout)},
	{"KeepHeaders", "header names parted by commas", with(parseList, func(names []string) Option { return KeepHeaders(names...) })},
}

// Parse reads the text of an annotation: Name=Value pairs parted by white space,
// lists parted by commas.
//
//	TTLHours=48 LockTTL=60s Required=false ExcludeFields=clientTimestamp,meta.nonce
//
// The names are those of the options and count as spelled. Everything that is
// wrong is reported at once, joined by errors.Join: unknown and repeated names,
// values that cannot be read (*FieldError), and what Validate finds.
func Parse(text string) (Policy, error) {
	var opts []Option
	var all []error
	seen := make(map[string]bool)
	for pair := range strings.FieldsSeq(text) {
		name, value, found := strings.Cut(pair, "=")
		switch {
		case !found:
			all = append(all, fmt.Errorf("policy: %q is no setting: write %s=value", pair, name))
			continue
		case seen[name]:
			all = append(all, fmt.Errorf("policy: %s is given twice: once is enough", name))
			continue
		}
		seen[name] = true
		opt, err := parseSetting(name, value)
		if err != nil {
			all = append(all, err)
			continue
		}
		opts = append(opts, opt)
	}
	if seen["TTL"] && seen["TTLHours"] {
		all = append(all, errors.New("policy: TTL and TTLHours are both given: one is enough"))
	}
	p, err := New(opts...)
	if all = append(all, err); errors.Join(all...) != nil {
		return Policy{}, errors.Join(all...)
	}
	return p, nil
}

func parseSetting(name, value string) (Option, error) {
	for _, s := range settings {
		if s.name != name {
			continue
		}
		opt, err := s.read(value)
		if err != nil {
			return nil, &FieldError{Field: name, Value: value, Want: s.want}
		}
		return opt, nil
	}
	known := make([]string, len(settings))
	for i, s := range settings {
		if known[i] = s.name; strings.EqualFold(s.name, name) {
			return nil, fmt.Errorf("policy: unknown name %q: did you mean %s?", name, s.name)
		}
	}
	return nil, fmt.Errorf("policy: unknown name %q: the names are %s", name, strings.Join(known, ", "))
}

// with joins a parser and the option that takes what it returns.
func with[T any](parse func(string) (T, error), option func(T) Option) func(string) (Option, error) {
	return func(value string) (Option, error) {
		parsed, err := parse(value)
		if err != nil {
			return nil, err
		}
		return option(parsed), nil
	}
}

func parseList(value string) ([]string, error) { return strings.Split(value, ","), nil }

func parseBytes(value string) (int64, error) { return strconv.ParseInt(value, 10, 64) }

var errUnknownMode = errors.New("unknown mode")

func parseStoreErrorMode(value string) (StoreErrorMode, error) {
	for _, mode := range []StoreErrorMode{FailClosed, FailOpen} {
		if mode.String() == value {
			return mode, nil
		}
	}
	return 0, errUnknownMode
}

func parseAbandonedMode(value string) (AbandonedMode, error) {
	for _, mode := range []AbandonedMode{Reexecute, Refuse} {
		if mode.String() == value {
			return mode, nil
		}
	}
	return AbandonedMode{}, errUnknownMode
}
