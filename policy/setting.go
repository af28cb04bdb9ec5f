package policy

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// The kinds of values are the types that Named takes.
const (
	text    = "string"
	number  = "int64"
	boolean = "bool"
	list    = "[]string"
	code    = "func" // which text cannot express
)

// setting is one row of settings.
type setting struct {
	name  string
	kind  string
	want  string // the expected form of the value
	read  func(value string) (Option, error)
	set   func(names []string) Option // only for the kind list
	write func(p *Policy) string      // the name and the value
	check func(p *Policy, check checker)
}

// fieldName is the name of the Policy's field.
func (s *setting) fieldName() string { return strings.TrimSuffix(s.name, "Hours") }

// rule checks the value of one field, which may depend on other fields.
type rule[T any] func(p *Policy, value T, check checker)

// checker reports a value that is not as wanted, unless it is ok.
type checker func(ok bool, value any, want string, arguments ...any)

// field is the row of a field that at finds in a Policy.
func field[T any](name, kind, want string, at func(*Policy) *T, parse func(string) (T, error), format func(T) string, rules ...rule[T]) setting {
	return setting{
		name: name, kind: kind, want: want,
		read: func(value string) (Option, error) {
			parsed, err := parse(value)
			if err != nil {
				return nil, &FieldError{Field: name, Value: value, Want: want}
			}
			return func(p *Policy) { *at(p) = parsed }, nil
		},
		write: func(p *Policy) string { return name + "=" + format(*at(p)) },
		check: func(p *Policy, check checker) {
			for _, rule := range rules {
				rule(p, *at(p), check)
			}
		},
	}
}

// hours clamps a number of hours that would overflow. Validate refuses the result.
func hours(n int) time.Duration {
	const limit = int(math.MaxInt64 / time.Hour)
	return time.Duration(min(max(n, -limit), limit)) * time.Hour
}

// inHours is the row of a duration that text has in hours, at least so many.
func inHours(name string, least int, at func(*Policy) *time.Duration, rules ...rule[time.Duration]) setting {
	const most = int(maxTTL / time.Hour)
	parse := func(value string) (time.Duration, error) {
		n, err := strconv.Atoi(value)
		if n < least || n > most { // here, so that the error has the number as it is written
			return 0, strconv.ErrRange
		}
		return hours(n), err
	}
	format := func(d time.Duration) string { return strconv.FormatInt(int64(d/time.Hour), 10) }
	want := fmt.Sprintf("a whole number of hours, from %d to %d (ten years)", least, most)
	row := field(name, number, want, at, parse, format, rules...)
	inText := row.write
	row.write = func(p *Policy) string {
		if d := *at(p); d%time.Hour != 0 {
			return row.fieldName() + "=" + durationText(d)
		}
		return inText(p)
	}
	return row
}

func duration(name, example string, at func(*Policy) *time.Duration, rules ...rule[time.Duration]) setting {
	return field(name, text, "a duration such as "+example, at, time.ParseDuration, durationText, rules...)
}

func durationText(d time.Duration) string {
	if short, found := strings.CutSuffix(d.String(), "m0s"); found {
		return short + "m"
	}
	return d.String()
}

func toggle(name string, at func(*Policy) *bool, rules ...rule[bool]) setting {
	return field(name, boolean, "true or false", at, strconv.ParseBool, strconv.FormatBool, rules...)
}

func bytes(name string, at func(*Policy) *int64) setting {
	parse := func(value string) (int64, error) { return strconv.ParseInt(value, 10, 64) }
	format := func(n int64) string { return strconv.FormatInt(n, 10) }
	return field(name, number, "a whole number of bytes", at, parse, format, positive)
}

func names(name, items string, at func(*Policy) *[]string, rules ...rule[[]string]) setting {
	parse := func(value string) ([]string, error) { return strings.Split(value, ","), nil }
	format := func(values []string) string { return strings.Join(values, ",") }
	s := field(name, list, items+" separated by commas", at, parse, format, rules...)
	s.set = func(names []string) Option { return listOf(at, names) }
	return s
}

// listOf sets a list, which at finds in a Policy, to a copy.
func listOf(at func(*Policy) *[]string, items []string) Option {
	items = slices.Clone(items)
	return func(p *Policy) { *at(p) = items }
}

// function is the row of a function.
func function(name string, isSet func(*Policy) bool) setting {
	at := func(p *Policy) *bool { return new(isSet(p)) }
	parse := func(string) (bool, error) { return false, strconv.ErrSyntax }
	format := func(isSet bool) string {
		if isSet {
			return "func"
		}
		return ""
	}
	return field(name, code, "a function, in Go only", at, parse, format)
}

// oneOf reads the name of one of the values.
func oneOf[T fmt.Stringer](values ...T) func(string) (T, error) {
	return func(name string) (found T, err error) {
		for _, value := range values {
			if value.String() == name {
				return value, nil
			}
		}
		return found, strconv.ErrSyntax
	}
}

func parseKeyField(path string) (string, error) {
	if path == "" {
		return "", strconv.ErrSyntax
	}
	return path, nil
}

func positive(_ *Policy, n int64, check checker) { check(n > 0, n, "more than zero") }

// atLeast refuses a number without a unit, too: Go reads StoreTimeout(500) as nanoseconds.
func atLeast(least time.Duration) rule[time.Duration] {
	return func(_ *Policy, d time.Duration, c checker) { c(d >= least, d, "at least %v", least) }
}

func zeroOrAtLeast(least time.Duration) rule[time.Duration] {
	return func(_ *Policy, d time.Duration, c checker) { c(d == 0 || d >= least, d, "zero, or at least %v", least) }
}

// each checks every item of a list.
func each(isRight func(item string) bool, want string, arguments ...any) rule[[]string] {
	return func(_ *Policy, items []string, check checker) {
		for _, item := range items {
			check(isRight(item), item, want, arguments...)
		}
	}
}

func eachHeader(example, of string) rule[[]string] {
	return func(p *Policy, names []string, check checker) {
		each(httpguts.ValidHeaderFieldName, "a header name, such as %s", example)(p, names, check)
		each(func(name string) bool { return !belongsToConnection(http.CanonicalHeaderKey(name)) },
			"an end-to-end header: a hop-by-hop header belongs to one connection, not to a %s", of)(p, names, check)
	}
}

// notIn checks that no entry stands in another list too.
func notIn(name string, other func(*Policy) *[]string) rule[[]string] {
	return func(p *Policy, entries []string, check checker) {
		each(func(entry string) bool { return !slices.Contains(*other(p), entry) }, "in one list only: %s has it too", name)(p, entries, check)
	}
}
