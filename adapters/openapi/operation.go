package openapi

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/oncekey/oncekey/policy"
)

const problemType = "application/problem+json"

// describe adds the effects of the policy to an operation. shared holds the parameters of
// the path.
func (m *merger) describe(operation *object, shared []parameter, p *policy.Policy) {
	if p.KeyField != "" {
		if !operation.has(keyFieldName) {
			operation.add(keyFieldName, quoted(p.KeyField))
		}
	} else if !slices.ContainsFunc(slices.Concat(shared, m.parameters(operation)), m.isKey) {
		name := optionalKeyName
		if p.Required && !p.Observe {
			name = requiredKeyName
		}
		parameter := ref("parameters", name)
		if format := p.KeyFormat.Expression(); format != "" { // the component is for every format
			parameter = m.keyParameter(name == requiredKeyName, format)
		}
		parameters := m.array(operation, "parameters")
		parameters.add("", parameter)
		operation.set("parameters", parameters.text())
	}
	responses := m.object(operation, "responses")
	m.checkResponses(&responses)
	if !describesSuccess(&responses) {
		responses.set("2XX", compact("description", quoted("The handler's response.")))
	}
	if !p.Observe { // an observing policy never changes a response
		m.addReplays(&responses, p)
		for i := range engineResponses {
			m.addProblem(&responses, &engineResponses[i], p)
		}
	}
	operation.set("responses", responses.text())
}

// checkResponses finds members of responses that are not responses.
func (m *merger) checkResponses(responses *object) {
	for _, response := range responses.members {
		if isExtension(response.name) {
			continue
		}
		place := responses.place + "." + response.name
		m.cut(response.value, object{place: place})
		if gjson.Parse(response.value).Get(problemSchemaPath+".allOf.0").Raw == "null" {
			m.fail("%s.content.%s.schema.allOf[0] is null: fill it in, or remove it", place, problemType)
		}
	}
}

func isExtension(name string) bool { return strings.HasPrefix(name, "x-") }

// addReplays adds the header that marks a replay, and the other headers of the engine, to
// the responses of the handler, except 5xx responses, which are not stored.
func (m *merger) addReplays(responses *object, p *policy.Policy) {
	for i := range responses.members {
		response := &responses.members[i]
		if !strings.HasPrefix(response.name, "5") && !isExtension(response.name) && !isOurs(response.value) {
			m.addTo(responses, response.name, named{m.replayHeader, ref("headers", replayName)}, named{})
			if len(p.RedactFields) > 0 {
				m.addTo(responses, response.name, named{"X-Idempotent-Redacted", redactedHeader}, named{})
			}
			if m.expires {
				m.addTo(responses, response.name, named{m.expiryHeader, expiryHeader}, named{})
			}
		}
	}
}

func (m *merger) addProblem(responses *object, e *engineResponse, p *policy.Policy) {
	status := strconv.Itoa(e.status)
	if responses.find(status) == nil {
		responses.set(status, compact("description", quoted(m.naming(e.description))))
	}
	header := named{}
	if e.retryAfter {
		header = named{"Retry-After", ref("headers", retryAfterName)}
	}
	schema := fmt.Sprintf(`{"allOf":[%s,{"type":"object","properties":{"status":{"type":"integer","enum":[%d]},"code":{"type":"string","enum":%s}}}]}`,
		ref("schemas", problemName), e.status, list(e.codesOf(p)))
	m.addTo(responses, status, header, named{problemType, compact("schema", schema)})
}

// addTo adds a missing header and media type to a response. A response that is a $ref
// stays unchanged.
func (m *merger) addTo(responses *object, status string, header, media named) {
	response := m.object(responses, status)
	if response.find("$ref") != nil {
		return
	}
	before := response.text()
	m.addMissing(&response, "headers", header)
	m.addMissing(&response, "content", media)
	if response.text() != before {
		responses.set(status, response.text())
	}
}

// addMissing adds a member to the object of this name, unless the object has the member.
func (m *merger) addMissing(response *object, name string, add named) {
	if add.name == "" {
		return
	}
	if all := m.object(response, name); !all.has(add.name) {
		all.add(add.name, add.value)
		response.set(name, all.text())
	}
}

// problemSchemaPath is the path to the schema of a response's problems.
var problemSchemaPath = "content." + gjson.Escape(problemType) + ".schema"

// isOurs reports whether an earlier Merge described the response.
func isOurs(response string) bool {
	first := gjson.Parse(response).Get(problemSchemaPath + ".allOf.0")
	return first.Get("$ref").Str == componentPath("schemas", problemName)
}

func componentPath(kind, name string) string { return "#/components/" + kind + "/" + name }

func ref(kind, name string) string { return compact("$ref", quoted(componentPath(kind, name))) }

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
