package policy

import "strconv"

// Named returns the option of this name, set to a value as a file has it: a bool,
// an int64, a string for durations and modes, a []string for names. The error is
// a *FieldError that says what would be right, or lists the names there are.
func Named(name string, value any) (Option, error) {
	s, err := settingOf(name)
	if err != nil {
		return nil, err
	}
	switch value := value.(type) {
	case []string:
		if s.kind == list {
			return s.list(value...), nil
		}
	case bool:
		if s.kind == toggle {
			return s.parse(strconv.FormatBool(value))
		}
	case int64:
		if s.kind == number {
			return s.parse(strconv.FormatInt(value, 10))
		}
	case string:
		if s.kind == text {
			return s.parse(value)
		}
	}
	want := s.want
	if s.kind == list {
		want = "a list of names"
	}
	return nil, &FieldError{Field: name, Value: value, Want: want}
}
