package policy

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// settings has a row for each field of Policy, in their order: the name in text, the form
// of the value, and the checks of Validate. Text has TTL and Remember in hours alone, so that
// each of them has one spelling.
var settings = []setting{
	inHours("TTLHours", 1, func(p *Policy) *time.Duration { return &p.TTL }, func(_ *Policy, ttl time.Duration, check checker) {
		check(ttl >= time.Millisecond && ttl <= maxTTL, ttl, "from 1ms to %v (ten years)", maxTTL)
	}),
	inHours("RememberHours", 0, func(p *Policy) *time.Duration { return &p.Remember }, zeroOrAtLeast(time.Millisecond), func(p *Policy, d time.Duration, check checker) {
		check(d <= maxTTL-max(p.TTL, 0) || p.TTL > maxTTL, d, "at most %v (ten years) with TTL, which is %v", maxTTL, p.TTL)
	}),
	duration("LockTTL", "60s", func(p *Policy) *time.Duration { return &p.LockTTL }, atLeast(time.Millisecond), func(p *Policy, lease time.Duration, check checker) {
		check(lease <= p.TTL, lease, "at most TTL, which is %v", p.TTL)
	}),
	toggle("Required", func(p *Policy) *bool { return &p.Required }),
	field("KeyField", text, "a member's name or path, such as request_id", func(p *Policy) *string { return &p.KeyField },
		parseKeyField, func(path string) string { return path }, func(_ *Policy, path string, check checker) {
			check(path == "" || isField(path), path, fieldForm, "request_id")
		}),
	field("KeyFormat", text, "UUID, or policy.KeyPattern in Go", func(p *Policy) *KeySyntax { return &p.KeyFormat },
		oneOf(UUIDKey), KeySyntax.String, func(_ *Policy, format KeySyntax, check checker) {
			if err := format.err; err != nil {
				check(false, format.name, "UUIDKey, or KeyPattern with a regular expression: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
			}
		}),
	duration("KeyAge", "23h", func(p *Policy) *time.Duration { return &p.KeyAge }, zeroOrAtLeast(time.Minute), func(p *Policy, age time.Duration, check checker) {
		longest := p.TTL + p.Remember - KeyClockTolerance
		check(age < time.Minute || age <= longest, age,
			"at most %v, which is TTL with Remember less %v for clocks that are ahead: a retry after its record, and before KeyAge, would run again", longest, KeyClockTolerance)
	}),
	function("SkipIf", func(p *Policy) bool { return p.SkipIf != nil }),
	names("ExcludeFields", "names", func(p *Policy) *[]string { return &p.ExcludeFields }, each(isField, fieldForm, "meta.nonce")),
	names("IncludeFields", "names", func(p *Policy) *[]string { return &p.IncludeFields }, each(isField, fieldForm, "amount"), func(p *Policy, fields []string, check checker) {
		check(len(fields) == 0 || len(p.ExcludeFields) == 0, strings.Join(fields, ","), "left out beside ExcludeFields, because all other fields are excluded already")
	}),
	names("IncludeHeaders", "header names", func(p *Policy) *[]string { return &p.IncludeHeaders }, eachHeader("X-Api-Version", "request"),
		each(func(name string) bool { return !strings.EqualFold(name, "Host") }, "another header: core.ScopeByHost separates keys by Host")),
	toggle("ExactBytes", func(p *Policy) *bool { return &p.ExactBytes }, func(p *Policy, on bool, check checker) {
		check(!on || len(p.IncludeFields)+len(p.ExcludeFields) == 0, on, "left out beside ExcludeFields and IncludeFields: with it every byte counts")
	}),
	names("Methods", "methods", func(p *Policy) *[]string { return &p.Methods }, func(_ *Policy, methods []string, check checker) {
		check(len(methods) > 0, "", "at least one method")
	}, each(isMethod, "a method in capital letters, such as POST")),
	field("OnStoreError", text, "FailClosed or FailOpen", func(p *Policy) *StoreErrorMode { return &p.OnStoreError },
		oneOf(FailClosed, FailOpen), StoreErrorMode.String, func(p *Policy, mode StoreErrorMode, check checker) {
			check(mode <= FailOpen, int(mode), "FailClosed or FailOpen")
			check(!p.Transactional || mode != FailOpen, mode, "FailClosed when Transactional is true: there is no transaction without the store")
		}),
	duration("Wait", "2s", func(p *Policy) *time.Duration { return &p.Wait }, zeroOrAtLeast(time.Millisecond)),
	field("OnAbandoned", text, "Reexecute or Refuse, or policy.Recover in Go", func(p *Policy) *AbandonedMode { return &p.OnAbandoned },
		oneOf(Reexecute, Refuse), AbandonedMode.String, func(_ *Policy, mode AbandonedMode, check checker) {
			check(!mode.recovers || mode.recover != nil, mode, "given a function, or be Reexecute or Refuse")
		}),
	toggle("Transactional", func(p *Policy) *bool { return &p.Transactional }),
	toggle("ObserveOnly", func(p *Policy) *bool { return &p.ObserveOnly }),
	duration("MaxRun", "15m", func(p *Policy) *time.Duration { return &p.MaxRun }, atLeast(time.Millisecond)),
	bytes("MaxRequestBytes", func(p *Policy) *int64 { return &p.MaxRequestBytes }),
	bytes("MaxResponseBytes", func(p *Policy) *int64 { return &p.MaxResponseBytes }),
	duration("StoreTimeout", "500ms", func(p *Policy) *time.Duration { return &p.StoreTimeout }, atLeast(time.Millisecond)),
	names("Release", "statuses from 400 on, or classes of them,", released, each(isError, "a status from 400 to 599, or the class 4xx or 5xx")),
	names("Keep", "statuses or classes such as 5xx,", kept, each(isStatus, statusForm), notIn("Release", released)),
	names("Uncertain", "statuses or classes such as 5xx,", func(p *Policy) *[]string { return &p.Uncertain },
		each(isStatus, statusForm), notIn("Release", released), notIn("Keep", kept)),
	function("Classifier", func(p *Policy) bool { return p.Classifier != nil }),
	names("RedactFields", "names", func(p *Policy) *[]string { return &p.RedactFields }, each(isField, fieldForm, "client_secret")),
	names("KeepHeaders", "header names", func(p *Policy) *[]string { return &p.KeepHeaders }, eachHeader("Set-Cookie", "response")),
}

const (
	fieldForm  = "a member's name or path, such as %s, without commas, quotation marks, equals signs, spaces around it or control characters"
	statusForm = "a status from 200 to 599, or a class such as 5xx"
)

func released(p *Policy) *[]string { return &p.Release }

func kept(p *Policy) *[]string { return &p.Keep }

// Validate returns nil, or a *FieldError for every invalid field, joined by
// errors.Join. New and Parse call Validate.
func (p *Policy) Validate() error {
	var all []error
	for i := range settings {
		settings[i].check(p, func(ok bool, value any, want string, arguments ...any) {
			if !ok {
				all = append(all, &FieldError{Field: settings[i].fieldName(), Value: value, Want: fmt.Sprintf(want, arguments...)})
			}
		})
	}
	return errors.Join(all...)
}
