package openapi

import (
	"fmt"

	"github.com/oncekey/oncekey/policy"
)

// responses returns the responses that a route's policy can cause, one for each status.
func (l *library) responses(of *route) []response {
	all := l.ownResponses(&of.declaration.Policy)
	if l.write != nil {
		all = l.writtenResponses(of.written)
	}
	for i := range all {
		all[i].headers = append(all[i].headers, l.echo()...)
	}
	return all
}

// echo is the header of KeyEcho, if the option was given.
func (l *library) echo() []addition {
	if !l.echoes {
		return nil
	}
	return []addition{{l.keyHeader, echoName, l.naming(echoHeader)}}
}

// ownResponses returns the responses in the engine's own form.
func (l *library) ownResponses(p *policy.Policy) (all []response) {
	for _, e := range responsesOf(p, l.limits) {
		r := response{
			status: e.status, codes: e.names(), name: e.name, text: l.naming(e.text()),
			contents: []content{{problemType, func() string { return l.problemMedia(e) }}},
		}
		if e.retryAfter {
			r.headers = append(r.headers, addition{"Retry-After", retryAfterName, l.naming(retryAfterHeader)})
		}
		all = append(all, r)
	}
	return all
}

// component is a $ref to the component of a response.
func (l *library) component(r *response) string {
	members := []string{"description", quoted(r.text)}
	var headers, contents []string
	for _, h := range r.headers {
		headers = append(headers, h.header, l.ref("headers", h.component, h.value))
	}
	for _, c := range r.contents {
		contents = append(contents, c.mediaType, c.media())
	}
	if len(headers) > 0 {
		members = append(members, "headers", compact(headers...))
	}
	if len(contents) > 0 {
		members = append(members, "content", compact(contents...))
	}
	if !r.isWritten {
		return l.ref("responses", r.name, compact(members...))
	}
	value := compact(append(members, codesName, list(r.codes))...)
	return l.ref("responses", l.nameFor(r.name, value), value)
}

// problemMedia is the media type of an engine's response.
func (l *library) problemMedia(e *engineResponse) string {
	base := l.ref("schemas", problemName, problemSchema)
	schema := l.ref("schemas", e.name, fmt.Sprintf(
		`{"allOf":[%s,{"type":"object","properties":{"status":{"type":"integer","enum":[%d]},"code":{"type":"string","enum":%s}}}]}`,
		base, e.status, list(e.names())))
	var examples []string
	for _, c := range e.codes {
		if !c.noExample {
			examples = append(examples, c.name, l.ref("examples", examplePrefix+c.name, l.example(c)))
		}
	}
	return compact("schema", schema, "examples", compact(examples...))
}
