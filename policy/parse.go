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
	kind kind
	want string // the expected form of the value
	read func(value string) (Option, error)
	list func(names ...string) Option // only for the kind list
}

// kind is a setting's type in a typed file, such as YAML.
type kind uint8

const (
	text kind = iota
	number
	toggle
	list
)

// settings lists every option that text can express. Classifier, SkipIf and Recover
// take functions and are not in the list. TTL and Remember are there in hours alone, so
// that a text has one spelling for each of them.
var settings = []setting{
	{"TTLHours", number, "a whole number of hours", with(strconv.Atoi, TTLHours), nil},
	{"RememberHours", number, "a whole number of hours", with(strconv.Atoi, RememberHours), nil},
	{"LockTTL", text, "a duration such as 60s", with(time.ParseDuration, LockTTL), nil},
	{"Required", toggle, "true or false", with(strconv.ParseBool, Required), nil},
	{"KeyField", text, "a member's name or path, such as request_id", with(parseKeyField, KeyField), nil},
	{"KeyFormat", text, "UUID, or policy.KeyPattern in Go", with(parseKeyFormat, KeyFormat), nil},
	{"KeyAge", text, "a duration such as 23h", with(time.ParseDuration, KeyAge), nil},
	{"ExcludeFields", list, "names parted by commas", parted(ExcludeFields), ExcludeFields},
	{"IncludeFields", list, "names parted by commas", parted(IncludeFields), IncludeFields},
	{"IncludeHeaders", list, "header names parted by commas", parted(IncludeHeaders), IncludeHeaders},
	{"ExactBytes", toggle, "true or false", with(strconv.ParseBool, ExactBytes), nil},
	{"Methods", list, "methods parted by commas", parted(Methods), Methods},
	{"OnStoreError", text, "FailClosed or FailOpen", with(parseStoreErrorMode, OnStoreError), nil},
	{"Wait", text, "a duration such as 2s", with(time.ParseDuration, Wait), nil},
	{"OnAbandoned", text, "Reexecute or Refuse", with(parseAbandonedMode, OnAbandoned), nil},
	{"Transactional", toggle, "true or false", with(strconv.ParseBool, Transactional), nil},
	{"Observe", toggle, "true or false", with(strconv.ParseBool, Observe), nil},
	{"MaxRun", text, "a duration such as 15m", with(time.ParseDuration, MaxRun), nil},
	{"MaxRequestBytes", number, "a whole number of bytes", with(parseBytes, MaxRequestBytes), nil},
	{"MaxResponseBytes", number, "a whole number of bytes", with(parseBytes, MaxResponseBytes), nil},
	{"StoreTimeout", text, "a duration such as 500ms", with(time.ParseDuration, StoreTimeout), nil},
	{"Release", list, "statuses from 400 on, or classes of them, parted by commas", parted(Release), Release},
	{"Keep", list, "statuses or classes such as 5xx, parted by commas", parted(Keep), Keep},
	{"Uncertain", list, "statuses or classes such as 5xx, parted by commas", parted(Uncertain), Uncertain},
	{"RedactFields", list, "names parted by commas", parted(RedactFields), RedactFields},
	{"KeepHeaders", list, "header names parted by commas", parted(KeepHeaders), KeepHeaders},
}

// Parse reads a policy from text: Name=Value pairs separated by white space, with
// list items separated by commas.
//
//	TTLHours=48 LockTTL=60s Required=false ExcludeFields=clientTimestamp,meta.nonce
//
// The names are the options' names and are case-sensitive. The error joins all
// faults with errors.Join: unknown and repeated names, values that cannot be parsed
// (*FieldError), and the faults that Validate finds.
func Parse(text string) (Policy, error) {
	var opts []Option
	var all []error
	seen := make(map[string]bool)
	for pair := range strings.FieldsSeq(text) {
		name, value, found := strings.Cut(pair, "=")
		switch {
		case !found:
			all = append(all, fmt.Errorf("policy: %q is not a setting: write %s=value", pair, name))
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
	p, err := New(opts...)
	if all = append(all, err); errors.Join(all...) != nil {
		return Policy{}, errors.Join(all...)
	}
	return p, nil
}

func parseSetting(name, value string) (Option, error) {
	s, err := settingOf(name)
	if err != nil {
		return nil, err
	}
	return s.parse(value)
}

// settingOf returns the setting of this name, or an error that lists all names.
func settingOf(name string) (*setting, error) {
	known := make([]string, len(settings))
	for i := range settings {
		s := &settings[i]
		if s.name == name {
			return s, nil
		}
		known[i] = s.name
	}
	for _, right := range known {
		if strings.EqualFold(right, name) || right == name+"Hours" {
			return nil, fmt.Errorf("policy: unknown name %q: did you mean %s?", name, right)
		}
	}
	return nil, fmt.Errorf("policy: unknown name %q: the names are %s", name, strings.Join(known, ", "))
}

func (s *setting) parse(value string) (Option, error) {
	opt, err := s.read(value)
	if err != nil {
		return nil, &FieldError{Field: s.name, Value: value, Want: s.want}
	}
	return opt, nil
}

// with combines a parser and the option that takes the parsed value.
func with[T any](parse func(string) (T, error), option func(T) Option) func(string) (Option, error) {
	return func(value string) (Option, error) {
		parsed, err := parse(value)
		if err != nil {
			return nil, err
		}
		return option(parsed), nil
	}
}

// parted makes a reader for an option that takes a list.
func parted(option func(...string) Option) func(string) (Option, error) {
	return func(value string) (Option, error) { return option(strings.Split(value, ",")...), nil }
}

func parseBytes(value string) (int64, error) { return strconv.ParseInt(value, 10, 64) }

func parseKeyField(value string) (string, error) {
	if value == "" {
		return "", errEmpty
	}
	return value, nil
}

var errEmpty = errors.New("empty value")

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
