package policy

import "strconv"

// Named returns the option with the given name and value, such as a file holds
// them. The value is a bool, an int64, a string (durations and modes) or a []string
// (names). The error is a *FieldError with the expected form, or lists all names.
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
