package policy

import "strconv"

// Named returns the option of this name, set to a value as a file has it: a bool,
// an int64, a string for durations and modes, a []string for names. The error is
// a *FieldError that says what would be right, or lists the names there are.
func Named(name string, value any) (Option, error) {
	switch value := value.(type) {
	case []string:
		if option := listOption(name); option != nil {
			return option(value...), nil
		}
	case bool:
		if isSwitch(name) {
			return parseSetting(name, strconv.FormatBool(value))
		}
	case int64:
		if isNumber(name) {
			return parseSetting(name, strconv.FormatInt(value, 10))
		}
	case string:
		if !isSwitch(name) && !isNumber(name) && listOption(name) == nil {
			return parseSetting(name, value)
		}
	}
	return nil, wrongType(name, value)
}

func wrongType(name string, value any) error {
	for _, s := range settings {
		switch {
		case s.name != name:
		case listOption(name) != nil:
			return &FieldError{Field: name, Value: value, Want: "a list of names"}
		default:
			return &FieldError{Field: name, Value: value, Want: s.want}
		}
	}
	_, err := parseSetting(name, "") // it lists the names there are
	return err
}

func isSwitch(name string) bool {
	return name == "Required" || name == "Transactional" || name == "Observe"
}

func isNumber(name string) bool {
	return name == "TTLHours" || name == "MaxRequestBytes" || name == "MaxResponseBytes"
}

func listOption(name string) func(...string) Option {
	switch name {
	case "ExcludeFields":
		return ExcludeFields
	case "Methods":
		return Methods
	case "KeepHeaders":
		return KeepHeaders
	default:
		return nil
	}
}
