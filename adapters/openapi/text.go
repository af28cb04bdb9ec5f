package openapi

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"
)

// object is the text of a JSON object or array, cut into its members. The method text
// joins the same bytes again, with new members at the end. White space in an empty
// object or array is lost.
type object struct {
	place   string // in the document, for errors
	unit    string // one level of the document's indentation
	isArray bool
	members []member
}

// member is one value with the surrounding text, from the preceding comma or bracket to
// the following comma or bracket.
type member struct {
	name   string // unescaped; empty in an array
	before string // white space, and in an object the name and the colon
	value  string
	after  string // white space
}

const white = " \t\r\n"

// cut cuts text, one valid JSON object or array without surrounding white space.
func cut(text string) object {
	o := object{isArray: text[0] == '['}
	from := 1
	gjson.Parse(text).ForEach(func(key, value gjson.Result) bool {
		end := value.Index + len(value.Raw)
		behind := end + strings.IndexAny(text[end:], ",}]")
		o.members = append(o.members, member{name: key.Str, before: text[from:value.Index], value: value.Raw, after: text[end:behind]})
		from = behind + 1
		return true
	})
	return o
}

func (o *object) text() string {
	open, end := o.brackets()
	var b strings.Builder
	b.WriteString(open)
	for i, m := range o.members {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(m.before + m.value + m.after)
	}
	b.WriteString(end)
	return b.String()
}

func (o *object) brackets() (open, end string) {
	if o.isArray {
		return "[", "]"
	}
	return "{", "}"
}

// find returns the member of this name, or nil.
func (o *object) find(name string) *member {
	for i := range o.members {
		if o.members[i].name == name {
			return &o.members[i]
		}
	}
	return nil
}

// set replaces the value of a member, or adds the member. In place of a null or empty
// value, the new value gets the layout of its neighbours; otherwise it keeps its own
// layout.
func (o *object) set(name, value string) {
	m := o.find(name)
	switch {
	case m == nil:
		o.add(name, value)
	case isEmpty(m.value):
		m.value = o.laidOut(value)
	default:
		m.value = value
	}
}

func isEmpty(value string) bool {
	return value == "null" || (value[0] == '{' || value[0] == '[') && strings.Trim(value[1:len(value)-1], white) == ""
}

// add adds a member at the end, on a new line if the other members are on lines of their
// own.
func (o *object) add(name, value string) {
	m := member{name: name, value: o.laidOut(value)}
	separator := ":"
	if n := len(o.members); n > 0 {
		last := &o.members[n-1]
		m.before, m.after, last.after = o.lead(), last.after, ""
		if strings.HasSuffix(last.before, ": ") {
			separator = ": "
			if n == 1 && m.before == "" {
				m.before = " "
			}
		}
	}
	if !o.isArray {
		m.before += quoted(name) + separator
	}
	o.members = append(o.members, m)
}

// lead returns the white space before the last member. For a member at the start of a
// line the result is the line break and the indentation.
func (o *object) lead() string {
	if len(o.members) == 0 {
		return ""
	}
	before := o.members[len(o.members)-1].before
	lead := before[:len(before)-len(strings.TrimLeft(before, white))]
	for _, newline := range []string{"\r\n", "\n"} {
		if at := strings.LastIndex(lead, newline); at >= 0 {
			return lead[at:]
		}
	}
	return lead
}

// laidOut returns the value in the layout of the members: indented on several lines, or
// on one line.
func (o *object) laidOut(value string) string {
	newline, prefix, breaks := strings.Cut(o.lead(), "\n")
	var b bytes.Buffer
	var err error
	if breaks {
		err = json.Indent(&b, []byte(value), prefix, o.unit)
	} else {
		err = json.Compact(&b, []byte(value))
	}
	if err != nil { // cannot happen: a merge makes only valid JSON
		return value
	}
	return strings.ReplaceAll(b.String(), "\n", newline+"\n")
}

// quoted returns s as a JSON string.
func quoted(s string) string { return string(gjson.AppendJSONString(nil, s)) }

// compact returns a JSON object of names and the texts of values, in this order.
func compact(namesAndValues ...string) string {
	var o object
	for i := 0; i+1 < len(namesAndValues); i += 2 {
		o.add(namesAndValues[i], namesAndValues[i+1])
	}
	return o.text()
}

// list returns a JSON array of strings.
func list(strs []string) string {
	o := object{isArray: true}
	for _, s := range strs {
		o.add("", quoted(s))
	}
	return o.text()
}
