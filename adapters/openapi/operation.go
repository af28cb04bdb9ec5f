package openapi

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/tidwall/gjson"

	"github.com/oncekey/oncekey/policy"
)

// merger adds to one document.
type merger struct {
	reader
	library
	ids map[string]bool // the operationIds
}

// isDescribed reports whether an earlier Merge described an operation. That of a route that
// observes has only a parameter.
func (m *merger) isDescribed(operation *object) bool {
	parameters := m.array(operation, "parameters")
	return operation.find(extensionName) != nil || operation.find(keyFieldName) != nil ||
		slices.ContainsFunc(parameters.members, func(has member) bool {
			value := gjson.Parse(has.value)
			return isOurKey(value) && m.isKey(parameter{value.Get("in").Str, value.Get("name").Str})
		})
}

// describe adds the effects of the policy to an operation. shared holds the parameters of
// the path.
func (m *merger) describe(operation *object, shared []parameter, of *route) {
	p := &of.declaration.Policy
	var all []response
	if !p.ObserveOnly { // an observing policy never changes a response
		all = m.responses(of)
	}
	hasText := m.addKey(operation, shared, p, all)
	responses := m.object(operation, "responses")
	m.checkResponses(&responses)
	if !describesSuccess(&responses) {
		responses.set("2XX", compact("description", quoted("The handler's response.")))
	}
	m.addHeaders(&responses, p)
	for _, r := range all {
		m.addProblem(&responses, &r)
	}
	operation.set("responses", responses.text())
	if p.ObserveOnly {
		return
	}
	description := ""
	if !hasText {
		description = m.lifetime(p, all)
	}
	operation.set(extensionName, extension(p, description))
}

// addKey describes where the key is. It reports whether the description of the key's
// parameter is Merge's.
func (m *merger) addKey(operation *object, shared []parameter, p *policy.Policy, all []response) (hasText bool) {
	known := slices.Concat(shared, m.parameters(operation))
	if p.KeyField != "" {
		operation.set(keyFieldName, quoted(p.KeyField))
		return false
	}
	if slices.ContainsFunc(known, m.isKey) {
		return false
	}
	parameters := m.array(operation, "parameters")
	parameters.add("", m.keyParameter(p, all))
	operation.set("parameters", parameters.text())
	return true
}

// keyParameter describes the header as core.ParseKey reads it.
func (m *merger) keyParameter(p *policy.Policy, all []response) string {
	description := keyText(p)
	if !p.ObserveOnly {
		description += " " + m.lifetime(p, all)
	}
	members := []string{"name", quoted(m.keyHeader), "in", `"header"`, "description", quoted(description)}
	if p.Required && !p.ObserveOnly {
		members = append(members, "required", "true")
	}
	members = append(members, "schema", m.keyOf(p.KeyFormat))
	if example := exampleOf(p); p.KeyFormat.Allows(example) {
		members = append(members, "example", quoted(example))
	}
	return compact(members...)
}

// checkResponses finds members of responses that are not responses.
func (m *merger) checkResponses(responses *object) {
	for _, response := range responses.members {
		if isExtension(response.name) {
			continue
		}
		m.cut(response.value, object{place: responses.place + "." + response.name})
	}
}

// addHeaders adds the header that marks a replay, and the other headers of the engine, to
// the responses of the handler, except 5xx responses that the policy does not keep. The
// echo of the key is on all of them.
func (m *merger) addHeaders(responses *object, p *policy.Policy) {
	headers := []addition{{m.replayHeader, replayName, replayHeader}}
	if len(p.RedactFields) > 0 {
		headers = append(headers, addition{"X-Idempotent-Redacted", redactedName, redactedHeader})
	}
	if m.expires {
		headers = append(headers, addition{m.expiryHeader, expiryName, expiryHeader})
	}
	for i := range responses.members {
		response := responses.members[i]
		if isExtension(response.name) {
			continue
		}
		all := m.echo()
		if isKept(response.name, p) && !p.ObserveOnly {
			all = slices.Concat(headers, all)
		}
		m.change(responses, response.name, func(response *object) {
			for _, header := range all {
				m.addHeader(response, header)
			}
		})
	}
}

// isKept reports whether a response of this status, or of this range such as 5XX, can be
// stored: a 5xx only if Keep has it, and no other list has the status itself.
func isKept(status string, p *policy.Policy) bool {
	if !strings.HasPrefix(status, "5") || slices.Contains(p.Keep, status) {
		return true
	}
	if strings.EqualFold(status, "5xx") {
		return slices.ContainsFunc(p.Keep, func(kept string) bool { return strings.HasPrefix(kept, "5") })
	}
	return slices.Contains(p.Keep, "5xx") && !slices.Contains(p.Release, status) && !slices.Contains(p.Uncertain, status)
}

// addProblem describes a response of the engine. A response of the document's own gets
// the problem beside its contents.
func (m *merger) addProblem(responses *object, r *response) {
	status := strconv.Itoa(r.status)
	if responses.find(status) == nil {
		responses.add(status, m.component(r))
		return
	}
	m.change(responses, status, func(response *object) {
		for _, header := range r.headers {
			m.addHeader(response, header)
		}
		contents := m.object(response, "content")
		for _, c := range r.contents {
			if !slices.ContainsFunc(contents.members, func(has member) bool { return strings.EqualFold(has.name, c.mediaType) }) {
				contents.add(c.mediaType, c.media())
			}
		}
		if len(r.contents) > 0 {
			response.set("content", contents.text())
		}
	})
}

// addHeader adds a header, unless the response has it.
func (m *merger) addHeader(response *object, add addition) {
	all := m.object(response, "headers")
	if !slices.ContainsFunc(all.members, func(has member) bool { return strings.EqualFold(has.name, add.header) }) {
		all.add(add.header, m.ref("headers", add.component, add.value))
		response.set("headers", all.text())
	}
}

// describesSuccess reports whether responses has a 2xx, 3xx or default response.
func describesSuccess(responses *object) bool {
	return slices.ContainsFunc(responses.members, func(m member) bool {
		return strings.HasPrefix(m.name, "2") || strings.HasPrefix(m.name, "3") || m.name == "default"
	})
}

// isKey reports whether the parameter is the header of the key, in any case.
func (s *settings) isKey(p parameter) bool {
	return p.in == "header" && strings.EqualFold(p.name, s.keyHeader)
}

// operationIDs returns the operationIds of the document, which must all differ.
func (r *reader) operationIDs() map[string]bool {
	ids := make(map[string]bool)
	for _, place := range []string{"paths", "webhooks", "components.pathItems"} {
		addIDs(ids, r.document.Get(place))
	}
	return ids
}

// addIDs adds those of path items, and of the callbacks of their operations.
func addIDs(ids map[string]bool, items gjson.Result) {
	items.ForEach(func(_, item gjson.Result) bool {
		item.ForEach(func(_, operation gjson.Result) bool {
			ids[operation.Get("operationId").Str] = true
			operation.Get("callbacks").ForEach(func(_, callback gjson.Result) bool {
				addIDs(ids, callback)
				return true
			})
			return true
		})
		return true
	})
}

// operationID returns a new id, such as postMembersId.
func (m *merger) operationID(method, template string) string {
	var words strings.Builder
	words.WriteString(method)
	for word := range strings.FieldsFuncSeq(template, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		words.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	id := words.String()
	unique := id
	for n := 2; m.ids[unique]; n++ {
		unique = id + strconv.Itoa(n)
	}
	m.ids[unique] = true
	return unique
}
