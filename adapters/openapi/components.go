package openapi

import "github.com/oncekey/oncekey/core"

// The names of the components that Merge adds.
const (
	problemName     = "IdempotencyProblem"
	requiredKeyName = "IdempotencyKey"
	optionalKeyName = "OptionalIdempotencyKey"
	replayName      = "IdempotentReplay"
	retryAfterName  = "IdempotencyRetryAfter"
)

// named is a JSON value and its name.
type named struct{ name, value string }

// components are those of one kind.
type components struct {
	kind string
	all  []named
}

func componentsOf() []components {
	return []components{
		{"schemas", []named{{problemName, problemSchema}}},
		{"parameters", []named{{requiredKeyName, keyParameter(true)}, {optionalKeyName, keyParameter(false)}}},
		{"headers", []named{{replayName, replayHeader}, {retryAfterName, retryAfterHeader}}},
	}
}

// problemSchema describes problem.Problem as it is written.
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
	"description": "Present when the response is a stored one, sent again: the operation ran once.",
	"schema": {"type": "string", "enum": ["true"]}
}`

const retryAfterHeader = `{
	"description": "Seconds after which to send the request again, with the same Idempotency-Key.",
	"schema": {"type": "integer", "minimum": 1}
}`

// keyParameter describes the header as core.ParseKey reads it.
func keyParameter(required bool) string {
	parameter := []string{
		"name", quoted(core.KeyHeader),
		"in", `"header"`,
		"description", `"New for every operation, the same for every retry of it, such as a random UUID. A raw key, or a string in quotes: both forms of one key are the same key."`,
	}
	if required {
		parameter = append(parameter, "required", "true")
	}
	return compact(append(parameter, "schema", `{"type":"string","minLength":1,"maxLength":255,"pattern":"^[!-~]+$"}`)...)
}
