package fingerprint

// number copies a number as spelled.
func (w *walker) number(at, out int) (end, written int) {
	end = numberEnd(w.source, at)
	switch {
	case end == malformed:
		return malformed, out
	case end-at <= wordSize && at+wordSize <= len(w.source): // may write too much, within the capacity
		putWord(w.text, out, wordAt(w.source, at))
	default:
		copy(w.text[out:], w.source[at:end])
	}
	return end, out + end - at
}

// numberEnd returns the end of the number at source[at], or malformed.
func numberEnd(source []byte, at int) (end int) {
	if at < len(source) && source[at] == '-' {
		at++
	}
	end = skipDigits(source, at)
	if end == at || end > at+1 && source[at] == '0' {
		return malformed
	}
	if end < len(source) && source[end] == '.' {
		fraction := end + 1
		if end = skipDigits(source, fraction); end == fraction {
			return malformed
		}
	}
	if end < len(source) && lower(source[end]) == 'e' {
		exponent := signEnd(source, end+1)
		if end = skipDigits(source, exponent); end == exponent {
			return malformed
		}
	}
	return end
}

// skipDigits returns the end of the digits at source[at].
func skipDigits(source []byte, at int) (end int) {
	for at < len(source) && source[at]-'0' <= 9 {
		at++
	}
	return at
}

// signEnd returns the end of an optional sign.
func signEnd(source []byte, at int) (end int) {
	if at < len(source) && (source[at] == '+' || source[at] == '-') {
		return at + 1
	}
	return at
}
