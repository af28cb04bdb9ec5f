package openapi

import (
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/policy"
)

// The names of our components.
const (
	problemName     = "IdempotencyProblem"
	requiredKeyName = "IdempotencyKey"
	optionalKeyName = "OptionalIdempotencyKey"
	replayName      = "IdempotentReplay"
	retryAfterName  = "IdempotencyRetryAfter"
)

const problemType = "application/problem+json"

func componentsOf() *openapi3.Components {
	return &openapi3.Components{
		Schemas: openapi3.Schemas{problemName: {Value: problemSchema()}},
		Parameters: openapi3.ParametersMap{
			requiredKeyName: {Value: keyParameter(true)},
			optionalKeyName: {Value: keyParameter(false)},
		},
		Headers: openapi3.Headers{
			replayName: {Value: header("Present when the answer is a stored one that is sent again: the operation ran once.",
				openapi3.NewStringSchema().WithEnum("true"))},
			retryAfterName: {Value: header("Seconds after which to send the request again, with the same Idempotency-Key.",
				openapi3.NewIntegerSchema().WithMin(1))},
		},
	}
}

// keyParameter describes the header as core.ParseKey reads it.
func keyParameter(required bool) *openapi3.Parameter {
	parameter := openapi3.NewHeaderParameter(core.KeyHeader).WithRequired(required)
	parameter.Description = "New for every operation, the same for every retry of it, such as a random UUID. A raw key, or a string in quotes: both forms of one key are the same key."
	return parameter.WithSchema(openapi3.NewStringSchema().WithMinLength(1).WithMaxLength(255).WithPattern("^[!-~]+$"))
}

func header(description string, schema *openapi3.Schema) *openapi3.Header {
	return &openapi3.Header{Parameter: openapi3.Parameter{Description: description, Schema: schema.NewRef()}}
}

// problemSchema describes problem.Problem as it is written.
func problemSchema() *openapi3.Schema {
	text := openapi3.NewStringSchema
	return openapi3.NewObjectSchema().
		WithProperty("type", text().WithFormat("uri")).
		WithProperty("title", text()).
		WithProperty("status", openapi3.NewIntegerSchema()).
		WithProperty("detail", text()).
		WithProperty("code", text()).
		WithProperty("error", text()).
		WithProperty("differs", openapi3.NewArraySchema().WithItems(text())).
		WithProperty("others", openapi3.NewIntegerSchema().WithMin(1)).
		WithRequired([]string{"type", "title", "status", "detail", "code", "error"})
}

// describe adds to an operation what its policy does. shared are the parameters
// of all operations of its path.
func (s *settings) describe(operation *openapi3.Operation, shared openapi3.Parameters, p *policy.Policy, ours *openapi3.Components) {
	if !hasHeader(operation.Parameters, core.KeyHeader) && !hasHeader(shared, core.KeyHeader) {
		name := optionalKeyName
		if p.Required && !p.Observe {
			name = requiredKeyName
		}
		operation.Parameters = append(operation.Parameters, &openapi3.ParameterRef{Ref: "#/components/parameters/" + name, Value: ours.Parameters[name].Value})
	}
	if operation.Responses == nil {
		operation.Responses = openapi3.NewResponsesWithCapacity(0)
	}
	if !describesSuccess(operation.Responses) {
		operation.Responses.Set("2XX", &openapi3.ResponseRef{Value: openapi3.NewResponse().WithDescription("The handler's answer.")})
	}
	if p.Observe { // it answers nothing itself
		return
	}
	replay := openapi3.Headers{s.replayHeader: headerRef(replayName, ours)}
	for status, response := range operation.Responses.Map() {
		if !strings.HasPrefix(status, "5") && !isOurs(response) { // an answer of 5xx is not stored
			addTo(response, replay, nil)
		}
	}
	for i := range answers {
		addAnswer(operation.Responses, &answers[i], p, ours)
	}
}

func addAnswer(responses *openapi3.Responses, a *answer, p *policy.Policy, ours *openapi3.Components) {
	codes := a.codesOf(p)
	headers := openapi3.Headers{}
	if a.retryAfter {
		headers["Retry-After"] = headerRef(retryAfterName, ours)
	}
	schema := openapi3.NewSchema()
	schema.AllOf = openapi3.SchemaRefs{
		{Ref: "#/components/schemas/" + problemName, Value: ours.Schemas[problemName].Value},
		openapi3.NewObjectSchema().
			WithProperty("status", openapi3.NewIntegerSchema().WithEnum(a.status)).
			WithProperty("code", openapi3.NewStringSchema().WithEnum(codes...)).NewRef(),
	}
	content := openapi3.Content{problemType: openapi3.NewMediaType().WithSchema(schema)}
	response := responses.Value(strconv.Itoa(a.status))
	if response == nil {
		response = &openapi3.ResponseRef{Value: openapi3.NewResponse().WithDescription(a.description)}
		responses.Set(strconv.Itoa(a.status), response)
	}
	addTo(response, headers, content)
}

// addTo adds the headers and the media types that a response has not. One that
// is a $ref stays as it is.
func addTo(response *openapi3.ResponseRef, headers openapi3.Headers, content openapi3.Content) {
	if response.Ref != "" || response.Value == nil {
		return
	}
	for name, header := range headers {
		if !hasName(response.Value.Headers, name) {
			response.Value.Headers = with(response.Value.Headers, openapi3.Headers{name: header})
		}
	}
	for name, media := range content {
		if !hasName(response.Value.Content, name) {
			response.Value.Content = with(response.Value.Content, openapi3.Content{name: media})
		}
	}
}

// isOurs reports whether an earlier Merge has been here.
func isOurs(response *openapi3.ResponseRef) bool {
	schema := problemSchemaOf(response)
	return schema != nil && len(schema.AllOf) > 0 && schema.AllOf[0].Ref == "#/components/schemas/"+problemName
}

// problemSchemaOf returns the schema of a response's problems, or nil.
func problemSchemaOf(response *openapi3.ResponseRef) *openapi3.Schema {
	if response.Value == nil {
		return nil
	}
	media := response.Value.Content[problemType]
	if media == nil || media.Schema == nil {
		return nil
	}
	return media.Schema.Value
}

func headerRef(name string, ours *openapi3.Components) *openapi3.HeaderRef {
	return &openapi3.HeaderRef{Ref: "#/components/headers/" + name, Value: ours.Headers[name].Value}
}

// describesSuccess reports whether an answer that is no error has its place.
func describesSuccess(responses *openapi3.Responses) bool {
	for status := range responses.Map() {
		if strings.HasPrefix(status, "2") || strings.HasPrefix(status, "3") || status == "default" {
			return true
		}
	}
	return false
}

// hasHeader reports whether there is a header of this name, in any spelling.
func hasHeader(parameters openapi3.Parameters, name string) bool {
	for _, parameter := range parameters {
		if p := parameter.Value; p != nil && p.In == openapi3.ParameterInHeader && strings.EqualFold(p.Name, name) {
			return true
		}
	}
	return false
}

func hasName[T any](all map[string]T, name string) bool {
	for other := range all {
		if strings.EqualFold(other, name) {
			return true
		}
	}
	return false
}
