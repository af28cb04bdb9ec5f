package policy

import (
	"errors"
	"fmt"
	"strings"
)

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
		s, err := settingOf(name)
		if err == nil {
			var opt Option
			if opt, err = s.read(value); err == nil {
				opts = append(opts, opt)
			}
		}
		all = append(all, err)
	}
	p, err := New(opts...)
	if all = append(all, err); errors.Join(all...) != nil {
		return Policy{}, errors.Join(all...)
	}
	return p, nil
}

// Named returns the option with the given name and value, such as a file holds
// them. The value is a bool, an int64, a string (durations and modes) or a []string
// (names). The error is a *FieldError with the expected form, or lists all names.
func Named(name string, value any) (Option, error) {
	s, err := settingOf(name)
	if err != nil {
		return nil, err
	}
	names, isList := value.([]string)
	switch {
	case isList && s.kind == list:
		return s.set(names), nil
	case s.kind == list:
		return nil, &FieldError{Field: name, Value: value, Want: "a list of names"}
	case s.kind == fmt.Sprintf("%T", value):
		if option, err := s.read(fmt.Sprint(value)); err == nil {
			return option, nil
		}
	}
	return nil, &FieldError{Field: name, Value: value, Want: s.want}
}

// settingOf returns the setting of this name, or an error that lists all names.
func settingOf(name string) (*setting, error) {
	var known []string
	for i := range settings {
		switch s := &settings[i]; {
		case s.name == name:
			return s, nil
		case strings.EqualFold(s.name, name) || s.name == name+"Hours":
			return nil, fmt.Errorf("policy: unknown name %q: did you mean %s?", name, s.name)
		case s.kind != code:
			known = append(known, s.name)
		}
	}
	return nil, fmt.Errorf("policy: unknown name %q: the names are %s", name, strings.Join(known, ", "))
}

// String returns the settings that differ from the defaults, in the notation of Parse and
// in the order of the fields: "TTLHours=48 LockTTL=60s OnAbandoned=Refuse". It returns ""
// for the defaults. Parse reads the text again, except for settings that text cannot
// express. These have the name of their option in Go: "TTL=1h30m" for a time that is no
// whole number of hours, "Classifier=func", "KeyFormat=[a-z]+", "OnAbandoned=Recover".
func (p *Policy) String() string {
	standard, _ := New() // the defaults are valid
	var differing []string
	for i := range settings {
		if text := settings[i].write(p); text != settings[i].write(&standard) {
			differing = append(differing, text)
		}
	}
	return strings.Join(differing, " ")
}
