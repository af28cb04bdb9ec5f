package openapi

// The names of the components that Merge adds.
const (
	problemName     = "IdempotencyProblem"
	requiredKeyName = "IdempotencyKey"
	optionalKeyName = "OptionalIdempotencyKey"
	replayName      = "IdempotentReplay"
	retryAfterName  = "IdempotencyRetryAfter"

	// keyFieldName is the member of an operation that names policy.KeyField.
	keyFieldName = "x-idempotency-key-field"
)

// named is a JSON value and its name.
type named struct{ name, value string }

// components are the components of one kind.
type components struct {
	kind string
	all  []named
}

func (s *settings) componentsOf() []components {
	return []components{
		{"schemas", []named{{problemName, problemSchema}}},
		{"parameters", []named{{requiredKeyName, s.keyParameter(true, anyKey)}, {optionalKeyName, s.keyParameter(false, anyKey)}}},
		{"headers", []named{{replayName, replayHeader}, {retryAfterName, s.naming(retryAfterHeader)}}},
	}
}

// problemSchema describes the JSON of problem.Problem.
const problemSchema = `{
	"type": "object",
	"required": ["type", "title", "status", "detail", "code", "error"],
	"properties": {
		"type": {"type": "string", "format": "uri"},
		"title": {"type": "string"},
		"status": {"type": "integer"},
		"detail": {"type": "string"},
		"code": {"type": "string"},
		"error": {"type": "string"},
		"differs": {"type": "array", "items": {"type": "string"}},
		"others": {"type": "integer", "minimum": 1}
	}
}`

const replayHeader = `{
	"description": "Present when the response is a replay of a stored response: the operation ran once.",
	"schema": {"type": "string", "enum": ["true"]}
}`

const redactedHeader = `{
	"description": "On a replay: the members that the stored response does not have.",
	"schema": {"type": "string"}
}`

const expiryHeader = `{
	"description": "When the stored response expires, as an HTTP date. Absent if the response is not stored.",
	"schema": {"type": "string"}
}`

const retryAfterHeader = `{
	"description": "Seconds to wait before the next attempt with the same Idempotency-Key.",
	"schema": {"type": "integer", "minimum": 1}
}`

// anyKey is the pattern of keys without a policy.KeyFormat.
const anyKey = "^[!-~]+$"

// keyParameter describes the header as core.ParseKey reads it.
func (s *settings) keyParameter(required bool, pattern string) string {
	parameter := []string{
		"name", quoted(s.keyHeader),
		"in", `"header"`,
		"description", `"A new key for every operation and the same key for every retry, such as a random UUID. The key may be raw or a string in quotes: both forms are the same key."`,
	}
	if required {
		parameter = append(parameter, "required", "true")
	}
	return compact(append(parameter, "schema", compact("type", `"string"`, "minLength", "1", "maxLength", "255", "pattern", quoted(pattern)))...)
}
