package policy

import (
	"strconv"
	"strings"
	"time"
)

// String returns the settings that differ from the defaults, in the notation of Parse and
// in the order of the fields: "TTLHours=48 LockTTL=60s OnAbandoned=Refuse". It returns ""
// for the defaults. Parse reads the text again, except for settings that text cannot
// express: a function appears as "Classifier=func", a KeyPattern as its expression, and a
// TTL that is no whole number of hours as "TTL=1h30m".
func (p *Policy) String() string {
	standard, _ := New() // the defaults are valid
	defaults := standard.texts()
	var differing []string
	for i, setting := range p.texts() {
		if setting != defaults[i] {
			differing = append(differing, setting)
		}
	}
	return strings.Join(differing, " ")
}

// texts returns every setting, in a fixed order.
func (p *Policy) texts() []string {
	list := func(name string, values []string) string { return name + "=" + strings.Join(values, ",") }
	toggle := func(name string, on bool) string { return name + "=" + strconv.FormatBool(on) }
	number := func(name string, n int64) string { return name + "=" + strconv.FormatInt(n, 10) }
	function := func(name string, isSet bool) string {
		if isSet {
			return name + "=func"
		}
		return name + "="
	}
	return []string{
		hoursText("TTL", p.TTL), hoursText("Remember", p.Remember), durationText("LockTTL", p.LockTTL),
		toggle("Required", p.Required), "KeyField=" + p.KeyField, "KeyFormat=" + p.KeyFormat.String(),
		durationText("KeyAge", p.KeyAge), function("SkipIf", p.SkipIf != nil),
		list("ExcludeFields", p.ExcludeFields), list("IncludeFields", p.IncludeFields), list("IncludeHeaders", p.IncludeHeaders),
		toggle("ExactBytes", p.ExactBytes), list("Methods", p.Methods), "OnStoreError=" + p.OnStoreError.String(), durationText("Wait", p.Wait),
		"OnAbandoned=" + p.OnAbandoned.String(), toggle("Transactional", p.Transactional), toggle("Observe", p.Observe),
		durationText("MaxRun", p.MaxRun), number("MaxRequestBytes", p.MaxRequestBytes),
		number("MaxResponseBytes", p.MaxResponseBytes), durationText("StoreTimeout", p.StoreTimeout),
		list("Release", p.Release), list("Keep", p.Keep), list("Uncertain", p.Uncertain),
		function("Classifier", p.Classifier != nil),
		list("RedactFields", p.RedactFields), list("KeepHeaders", p.KeepHeaders),
	}
}

func hoursText(name string, d time.Duration) string {
	if d%time.Hour == 0 {
		return name + "Hours=" + strconv.FormatInt(int64(d/time.Hour), 10)
	}
	return durationText(name, d)
}

func durationText(name string, d time.Duration) string {
	text := d.String()
	if short, found := strings.CutSuffix(text, "m0s"); found {
		text = short + "m"
	}
	return name + "=" + text
}
