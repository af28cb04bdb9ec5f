package inspector

import (
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// masked stands for a value that is not shown.
const masked = "(masked)"

// credentials are the words that mask a value, and that no header of Headers may have. They
// are found inside of longer names, so their plurals are too.
var credentials = []string{
	"password", "passwd", "passphrase", "passcode", "secret", "token", "authorization", "authorisation", "credential", "cookie", "apikey", "privatekey",
}

// maskedWords mask the value of a member too, and are found in the same way.
var maskedWords = append([]string{"card", "number", "cvc", "cvv", "iban", "pan"}, credentials...)

// wholeWords are too short to be looked for inside of others, such as shipping.
var wholeWords = []string{"pin", "pwd", "otp", "ssn"}

// innocent are parts of names that have a masked word in them by chance.
var innocent = strings.NewReplacer(
	"compan", " ", "expan", " ", "japan", " ", "span", " ", "panel", " ", "panic", " ", "pandem", " ", "panoram", " ",
	"discard", " ", "wildcard", " ", "cardinal", " ", "secretar", " ",
)

// isSecret reports whether the value of a member is masked: its name has a masked word.
func isSecret(name string) bool {
	return hasWord(name, maskedWords) || hasWhole(wordsOf(name), wholeWords)
}

// isCredential reports whether a header is a credential by its name.
func isCredential(name string) bool { return hasWord(name, credentials) }

// hasWord reports whether a name has one of the words: inside of a word of its own, as in
// accesstokens, or written in several, as in passWord.
func hasWord(name string, words []string) bool {
	own := wordsOf(name)
	return slices.ContainsFunc(own, func(one string) bool {
		one = innocent.Replace(one)
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(one, word) })
	}) || hasWhole(own, words)
}

// hasWhole reports whether neighbours in a name are together one of the words, or its plural.
func hasWhole(own, words []string) bool {
	const longest = len("authorizations")
	for i := range own {
		for end := i + 1; end <= min(i+longest, len(own)); end++ {
			together := strings.Join(own[i:end], "")
			if len(together) > longest {
				break
			}
			if slices.Contains(words, together) || slices.Contains(words, strings.TrimSuffix(together, "s")) {
				return true
			}
		}
	}
	return false
}

// wordsOf returns the words of a name in lower case: card_number, cardNumber, PANNumber.
func wordsOf(name string) (words []string) {
	letters := []rune(name)
	begin := 0
	end := func(at int) {
		if at > begin {
			words = append(words, strings.Map(folded, string(letters[begin:at])))
		}
		begin = at
	}
	for i, r := range letters {
		switch {
		case !unicode.IsLetter(r):
			end(i)
			begin = i + 1
		case i == 0 || !unicode.IsUpper(r):
		case unicode.IsLower(letters[i-1]), unicode.IsUpper(letters[i-1]) && i+1 < len(letters) && unicode.IsLower(letters[i+1]):
			end(i)
		}
	}
	end(len(letters))
	return words
}

// folded returns a letter in lower case. Letters that look like an ASCII one, or that
// encoding/json takes for it, become that one: ſ, the Kelvin sign, and those of full width.
func folded(r rune) rune {
	const fullA, fullZ, toASCII = 'Ａ', 'ｚ', 'Ａ' - 'A'
	if fullA <= r && r <= fullZ {
		r -= toASCII
	}
	return unicode.ToLower(unicode.ToUpper(r))
}

// maskAddress masks the parameters of a URL by their names, and a password in it.
func maskAddress(address string) string {
	if before, fragment, has := strings.Cut(address, "#"); has {
		return maskAddress(before) + "#" + maskParameters(fragment)
	}
	if before, query, has := strings.Cut(address, "?"); has {
		return maskAddress(before) + "?" + maskParameters(query)
	}
	scheme, rest, _ := strings.Cut(address, "//")
	authority, _, _ := strings.Cut(rest, "/")
	if user := strings.LastIndex(authority, "@"); user >= 0 && (scheme == "" || strings.HasSuffix(scheme, ":")) {
		return scheme + "//" + masked + rest[user:]
	}
	return address
}

func maskParameters(query string) string {
	parameters := strings.FieldsFunc(query, func(r rune) bool { return r == '&' || r == ';' })
	for i, one := range parameters {
		name, _, _ := strings.Cut(one, "=")
		plain, err := url.QueryUnescape(one)
		if value := strings.LastIndex(plain, "="); value >= 0 {
			plain = plain[:value] // the value may be an address with parameters
		}
		if err != nil || isSecret(plain) {
			parameters[i] = name + "=" + masked
		}
	}
	return strings.Join(parameters, "&")
}
