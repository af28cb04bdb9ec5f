// Package fingerprint detects whether a retry carries the same request as the
// first attempt.
//
// An Idempotency-Key names one operation. A client that reuses a key for another
// payload makes a mistake, and replaying the first response would hide the mistake.
// Every record therefore keeps a fingerprint of its request, and the fingerprint of
// a retry must match:
//
//	exclusion, err := fingerprint.Exclude("timestamp", "meta.trace.id")
//	...
//	sum := fingerprint.Of(fingerprint.Request{
//		Method: "POST", Path: "/payments", ContentType: "application/json", Body: body,
//	}, exclusion)
//	if sum != record.Fingerprint { ... } // 422: the key was used for another request
//
// A server that fingerprints every request uses [Read], which does not allocate. The
// same [Reading] also makes sketches.
//
// # What counts
//
// A fingerprint is SHA-256 over these parts: a version, the method, the path, the
// query, the media type, the kind of body and the body. The length of each part
// precedes the part, so that different lists of parts never give the same bytes.
//
//   - JSON (application/json and every +json type) counts by content: white space,
//     the order of members and the spelling of strings and numbers do not matter, all
//     other differences do. Numbers count by their exact decimal value: 1.0, 1 and 10e-1
//     are equal, and 9007199254740993 is never rounded to its neighbour. A number whose
//     exponent has more than 18 digits counts as spelled. Duplicate members all count, in their
//     order; so do members whose names differ only in case, because encoding/json
//     gives both to one field. A lone surrogate or a byte that is not UTF-8 is equal
//     only to the same surrogate or byte.
//   - Queries and application/x-www-form-urlencoded bodies are sorted by name;
//     the values of one name keep their order. A malformed escape counts as
//     spelled. As for a parser, "a" is "a=", "+" is "%20", and "a=1&&b=2" has no
//     third pair. JSON or XML under the type of a form, as curl -d sends it, counts byte by
//     byte.
//   - multipart/form-data counts part by part, in order, without its boundary:
//     disposition (hence name and file name), content type, transfer encoding
//     and content.
//   - Any other body counts byte by byte. So does a body that does not match its
//     content type: JSON that is malformed or nested deeper than 512, and a form of
//     more than 10,000 pairs, more than 1,000 parts, or more than 128 KiB of part
//     headers. A query of more than 10,000 pairs counts byte by byte too. A content
//     type of more than 4 KiB is not parsed: content type and body count byte by byte.
//     No field is excluded from a body or query that counts byte by byte.
//   - The media type counts without regard to case or the order of its
//     parameters, and charset=utf-8 equals no charset.
//
// # Excluded fields
//
// [Exclude] describes the notation. Names match as encoding/json matches them, so that a
// member which a handler decodes is the member that was excluded. Excluded fields leave no trace: the fingerprint
// equals that of the document without the fields, which [Strip] returns.
//
// # Changed members
//
// Two different fingerprints do not show the changed members.
// [Reading.AppendSketch] makes short keyed hashes of a request's members, to be
// stored beside the fingerprint; [ReadForSketch] makes them on the way. [Reading.Differences] names the members of a later
// request that do not match the sketch, in the notation of [Exclude]: a retry with a
// new timestamp names "timestamp". The names contain only text that passes
// [LooksLikeName].
//
// # Limits
//
// The package does not repair requests: the path must arrive in one spelling, and the
// method in upper case. RFC 8785 (JSON Canonicalization Scheme) converts numbers to
// IEEE 754 doubles: two payments that differ in the seventeenth digit would be equal. RFC 8785 also refuses
// duplicate members and lone surrogates. Handlers can receive such requests, so they
// have a fingerprint here. The package does not sniff: a body without a content type
// counts byte by byte. Unicode normalisation is not applied.
//
// A reading takes about as much memory as its request, and up to 64 bytes for each member
// of one object and each pair of a form. A document is sorted while it is hashed, without
// a second copy.
//
// # Sources
//
// RFC 8259 (JSON), the WHATWG URL Standard (form encoding), RFC 7578
// (multipart/form-data), RFC 9110 (media types), FIPS 180-4 (SHA-256).
package fingerprint
