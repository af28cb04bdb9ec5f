package wire

import (
	"encoding/json"
	"mime"
	"slices"
	"strings"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/fingerprint"
)

// redactedHeader is the header of replays that names the omitted fields.
const redactedHeader = "X-Idempotent-Redacted"

// Redactions are fields that responses are stored without. They are safe for concurrent
// use.
type Redactions []redaction

type redaction struct {
	field   string
	members *fingerprint.Exclusion
}

// RedactionsOf compiles the fields of a policy's RedactFields.
func RedactionsOf(fields []string) (all Redactions, err error) {
	for _, field := range fields {
		members, err := fingerprint.Exclude(field)
		if err != nil {
			return nil, err
		}
		all = append(all, redaction{field, members})
	}
	return all, nil
}

// Apply omits the fields from a result. A body that is no JSON document is kept as it is.
// The body of a JSON response that cannot be read is not kept.
func (all Redactions) Apply(result *storage.Result) {
	if len(all) == 0 || len(result.Body) == 0 {
		return
	}
	var omitted []string
	for i := range all {
		stripped, err := all[i].members.Strip(result.Body)
		if err != nil {
			if isJSON(result) {
				*result = storage.Result{State: storage.Unreplayable, Status: result.Status, Retain: result.Retain}
			}
			return
		}
		if len(stripped) < len(result.Body) {
			omitted = append(omitted, all[i].field)
			result.Body = stripped
		}
	}
	if len(omitted) == 0 {
		return
	}
	result.Header = slices.DeleteFunc(slices.Clone(result.Header), func(f storage.Field) bool { return dependsOnBody(f.Name) })
	result.Header = append(result.Header, storage.Field{Name: redactedHeader, Value: strings.Join(omitted, ", ")})
}

// dependsOnBody reports whether a field's value is wrong for another body.
func dependsOnBody(name string) bool {
	switch name {
	case "Content-Length", "Content-Md5", "Content-Digest", "Repr-Digest", "Digest", redactedHeader:
		return true
	default:
		return false
	}
}

// isJSON reports whether the body was meant as a JSON document.
func isJSON(result *storage.Result) bool {
	for _, f := range result.Header {
		if f.Name == "Content-Type" && f.Op != storage.Delete {
			media, _, _ := mime.ParseMediaType(f.Value)
			if media == "application/json" || strings.HasSuffix(media, "+json") {
				return true
			}
		}
	}
	return json.Valid(result.Body)
}
