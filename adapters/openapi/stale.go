package openapi

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// isOwn reports whether a response of an operation is a problem that Merge has described
// under this status: a $ref to a component of the engine's own form, or of a writer's.
// theirs are the document's components of responses.
func isOwn(theirs gjson.Result, status string, response gjson.Result) bool {
	ref := response.Get("$ref")
	name, found := strings.CutPrefix(ref.Str, componentPath("responses", ""))
	return leadsTo("responses", status, ref) || found && isWritten(theirs.Get(gjson.Escape(name)))
}

// isOwnMedia does the same for a media type of a response.
func isOwnMedia(status string, media gjson.Result) bool {
	return leadsTo("schemas", status, media.Get("schema.$ref")) || isWritten(media)
}

// leadsTo reports whether a $ref leads to a component of the engine's own form, for a
// response of this status.
func leadsTo(kind, status string, ref gjson.Result) bool {
	name, found := strings.CutPrefix(ref.Str, componentPath(kind, ""))
	return found && strconv.Itoa(statusOf(name)) == status
}

// removeStale removes the problems that an earlier Merge has described, and that another
// problem.Writer gives another status or media type now.
func removeStale(r *reader, theirs gjson.Result, responses *object, all []response) {
	for _, has := range slices.Clone(responses.members) {
		var now response // without contents, if there is none of this status
		if at := slices.IndexFunc(all, func(of response) bool { return strconv.Itoa(of.status) == has.name }); at >= 0 {
			now = all[at]
		}
		switch {
		case isExtension(has.name):
		case now.status == 0 && isOwn(theirs, has.name, gjson.Parse(has.value)):
			responses.remove(has.name)
		default:
			r.change(responses, has.name, func(response *object) { removeStaleMedia(r, has.name, response, &now) })
		}
	}
}

// isOwnTime reports whether a header is a $ref to a Retry-After of Merge's.
func isOwnTime(header gjson.Result) bool {
	return strings.HasPrefix(header.Get("$ref").Str, componentPath("headers", retryAfterName))
}

// removeStaleMedia does the same in a response of the document's own. A Retry-After goes
// with the media types, unless the response has the header now.
func removeStaleMedia(r *reader, status string, response *object, now *response) {
	var media, headers []string
	isWriters := false
	each(response, "content", func(name string, value gjson.Result) {
		isNow := slices.ContainsFunc(now.contents, func(c content) bool { return strings.EqualFold(c.mediaType, name) })
		if !isNow && isOwnMedia(status, value) {
			media = append(media, name)
		}
		isWriters = isWriters || isWritten(value)
	})
	each(response, "headers", func(name string, value gjson.Result) {
		isNow := slices.ContainsFunc(now.headers, func(h addition) bool { return strings.EqualFold(h.header, name) })
		if !isNow && isOwnTime(value) && (isWriters || len(media) > 0) {
			headers = append(headers, name)
		}
	})
	remove(r, response, "content", media)
	remove(r, response, "headers", headers)
}

// each calls do for each member of a member of o.
func each(o *object, name string, do func(name string, value gjson.Result)) {
	if has := o.find(name); has != nil {
		gjson.Parse(has.value).ForEach(func(key, value gjson.Result) bool {
			do(key.Str, value)
			return true
		})
	}
}

// remove removes members of a member of o, and the member itself when it has no other.
func remove(r *reader, o *object, name string, members []string) {
	if len(members) == 0 {
		return
	}
	of := r.object(o, name)
	for _, member := range members {
		of.remove(member)
	}
	o.setOrRemove(name, &of)
}
