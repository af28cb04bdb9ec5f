package openapi

import (
	"strconv"
	"strings"
	"time"

	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/policy"
)

// keyText tells what a key is.
func keyText(p *policy.Policy) string {
	kind := ", such as a random UUID"
	switch {
	case !p.KeyFormat.Allows(exampleOf(p)):
		kind = ". It matches `" + p.KeyFormat.String() + "`"
	case p.KeyAge > 0:
		kind = ", such as a UUID of version 7"
	}
	return "A new key for every operation and the same key for every retry" + kind + ". The key may be raw or a string in quotes: both forms are the same key."
}

// exampleOf returns a random UUID, and one of version 7 for a policy with a KeyAge.
func exampleOf(p *policy.Policy) string {
	if p.KeyAge > 0 {
		return "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"
	}
	return "8e03978e-40d5-43dd-bc93-6894a57f9324"
}

// lifetime tells for how long a client may retry, and what may change between attempts.
func (s *settings) lifetime(p *policy.Policy, all []response) string {
	sentences := []string{"A response is kept for " + inWords(p.TTL) + ", and a retry in that time gets the same response."}
	if s.expires {
		sentences = append(sentences, "The header "+s.expiryHeader+" has the end of that time.")
	}
	expired := statusFor(all, problem.KeyExpired) + " `key_expired`"
	if p.Remember > 0 {
		sentences = append(sentences, "For another "+inWords(p.Remember)+" a retry gets "+expired+".")
	}
	if p.KeyAge > 0 {
		withTime := "a UUID of version 7"
		if p.KeyFormat != policy.UUIDKey { // which a ULID has not
			withTime += " or a ULID"
		}
		sentences = append(sentences, "A key that is older than "+inWords(p.KeyAge)+" and has no response gets "+expired+", and the operation does not run.",
			"The key is "+withTime+"; any other key needs the header `Repeatability-First-Sent`, an HTTP date.")
	} else {
		sentences = append(sentences, "After that the key is new, and the operation runs again.")
	}
	return strings.Join(append(sentences, differences(p, statusFor(all, problem.KeyReused))), " ")
}

// differences tells what may change between the attempts of one operation. Otherwise a
// retry gets the status.
func differences(p *policy.Policy, status string) string {
	parts := []string{"the path", "the query"}
	layout := "The order and the layout of JSON members do not count."
	switch {
	case p.ExactBytes:
		parts, layout = append(parts, "the body"), "Every byte counts."
	case len(p.IncludeFields) > 0:
		parts = append(parts, "the members "+names(p.IncludeFields)+" of the body")
	case len(p.ExcludeFields) > 0:
		parts = append(parts, "the body except "+names(p.ExcludeFields))
	default:
		parts = append(parts, "the body")
	}
	if len(p.IncludeHeaders) > 0 {
		parts = append(parts, "the headers "+names(p.IncludeHeaders))
	}
	last := len(parts) - 1
	return "A retry repeats " + strings.Join(parts[:last], ", ") + " and " + parts[last] + "; otherwise it gets " + status + ". " + layout
}

func names(all []string) string { return "`" + strings.Join(all, "`, `") + "`" }

// inWords returns a duration as people say it.
func inWords(d time.Duration) string {
	const day = 24 * time.Hour
	for _, unit := range []struct {
		length time.Duration
		name   string
		from   time.Duration
	}{{day, "day", 3 * day}, {time.Hour, "hour", 0}, {time.Minute, "minute", 0}, {time.Second, "second", 0}} {
		if d%unit.length != 0 || d < unit.from {
			continue
		}
		if d == unit.length {
			return "1 " + unit.name
		}
		return strconv.FormatInt(int64(d/unit.length), 10) + " " + unit.name + "s"
	}
	return d.String()
}

// extensionName is the member of an operation that has the policy for programs.
const extensionName = "x-idempotency"

// extension is the policy as a client sees it. description is empty where the parameter
// has the text.
func extension(p *policy.Policy, description string) string {
	var members []string
	if description != "" {
		members = append(members, "description", quoted(description))
	}
	members = append(members, "required", strconv.FormatBool(p.Required), "ttlSeconds", seconds(p.TTL))
	for _, d := range []struct {
		name string
		d    time.Duration
	}{{"rememberSeconds", p.Remember}, {"keyAgeSeconds", p.KeyAge}, {"lockTTLSeconds", p.LockTTL}, {"waitSeconds", p.Wait}} {
		if d.d > 0 {
			members = append(members, d.name, seconds(d.d))
		}
	}
	members = append(members, "maxRequestBytes", strconv.FormatInt(p.MaxRequestBytes, 10))
	for _, l := range []struct {
		name string
		all  []string
	}{{"excludeFields", p.ExcludeFields}, {"includeFields", p.IncludeFields}, {"includeHeaders", p.IncludeHeaders}} {
		if len(l.all) > 0 {
			members = append(members, l.name, list(l.all))
		}
	}
	if p.ExactBytes {
		members = append(members, "exactBytes", "true")
	}
	if format := p.KeyFormat.String(); format != "" {
		members = append(members, "keyFormat", quoted(format))
	}
	return compact(members...)
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }
