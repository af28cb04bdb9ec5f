package openapi

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/oncekey/oncekey/core/problem"
)

// writtenResponses returns one response for each status that the program's writer writes.
func (l *library) writtenResponses(all []written) (responses []response) {
	for status, some := range grouped(all, func(w written) int { return w.status }) {
		r := response{status: status, isWritten: true, name: "Idempotency" + strconv.Itoa(status), text: l.naming(textOf(some))}
		for _, w := range some {
			r.name += variant(w.code)
			r.codes = append(r.codes, w.code.name)
		}
		if component, value := timeOf(some); value != "" {
			r.headers = append(r.headers, addition{"Retry-After", component, l.naming(value)})
		}
		for mediaType, ofType := range grouped(some, func(w written) string { return w.mediaType }) {
			if mediaType != "" {
				r.contents = append(r.contents, content{mediaType, func() string { return l.writtenMedia(ofType) }})
			}
		}
		responses = append(responses, r)
	}
	return responses
}

// grouped returns groups with equal keys, in the order of the keys.
func grouped[K cmp.Ordered](all []written, key func(written) K) iter.Seq2[K, []written] {
	groups := make(map[K][]written)
	for _, w := range all {
		groups[key(w)] = append(groups[key(w)], w)
	}
	return func(yield func(K, []written) bool) {
		for _, k := range slices.Sorted(maps.Keys(groups)) {
			if !yield(k, groups[k]) {
				return
			}
		}
	}
}

// variant is the part of a component's name for a code that not every policy can cause.
func variant(c code) string {
	switch {
	case c == keyTooOld:
		return "KeyAge"
	case c.noExample:
		return "KeyField"
	case c.name == problem.KeyMissing:
		return "KeyMissing"
	case c.name == problem.KeyExpired:
		return "KeyExpired"
	case c.name == problem.OutcomeUnknown:
		return "OutcomeUnknown"
	case c.name == problem.RolledBack:
		return "RolledBack"
	}
	return ""
}

// withoutTime removes the mentions of Retry-After from the texts of a table.
var withoutTime = strings.NewReplacer(" Only a response with Retry-After is temporary.", "", ", after the time in Retry-After", "")

// textOf is the description of a response: what to do about each code. It mentions
// Retry-After where the writer writes it.
func textOf(some []written) string {
	var texts []string
	for len(some) > 0 {
		e := *some[0].by
		n := len(some)
		if at := slices.IndexFunc(some, func(w written) bool { return w.by != some[0].by }); at > 0 {
			n = at
		}
		e.codes = nil
		for _, w := range some[:n] {
			e.codes = append(e.codes, w.code)
		}
		text := e.text()
		if !slices.ContainsFunc(some[:n], func(w written) bool { return w.retryAfter != "" }) {
			text = withoutTime.Replace(text)
		}
		texts, some = append(texts, text), some[n:]
	}
	return strings.Join(texts, "\n\n")
}

// timeHeader describes a Retry-After that is not in seconds everywhere (RFC 9110, section
// 10.2.3).
const timeHeader = `{
	"description": "When to make the next attempt with the same Idempotency-Key: seconds to wait, or an HTTP date.",
	"schema": {"type": "string"}
}`

// timeOf returns the component of the header Retry-After of some writings, if one of them
// has the header.
func timeOf(some []written) (name, value string) {
	for _, w := range some {
		seconds, err := strconv.Atoi(w.retryAfter)
		switch {
		case w.retryAfter == "":
		case err != nil || seconds < 1: // Atoi returns the largest int for too many digits
			return retryAfterName + "Time", timeHeader
		default:
			name, value = retryAfterName, retryAfterHeader
		}
	}
	return name, value
}

// writtenMedia is the Media Type Object of bodies of one media type.
func (l *library) writtenMedia(some []written) string {
	var bodies []gjson.Result
	var codes, examples []string
	for _, w := range some {
		codes = append(codes, w.code.name)
		bodies = append(bodies, gjson.Parse(w.body))
		if !w.code.noExample {
			summary := w.code.action
			if w.retryAfter == "" {
				summary = withoutTime.Replace(summary)
			}
			examples = append(examples, w.code.name, compact("summary", quoted(l.naming(summary)), "value", w.body))
		}
	}
	members := []string{"schema", schemaOf(bodies)}
	if len(examples) > 0 {
		members = append(members, "examples", compact(examples...))
	}
	return compact(append(members, codesName, list(codes))...)
}

// nameFor returns the name of a written response's component: base, or base-2 and so on
// where there is another component of that name.
func (l *library) nameFor(base, value string) string {
	name := base
	for n := 2; ; n++ {
		has := cmp.Or(l.need("responses", name), l.theirs.Get(gjson.Escape(name)).Raw)
		if has == "" || equalJSON(has, value) {
			return name
		}
		name = base + "-" + strconv.Itoa(n)
	}
}
