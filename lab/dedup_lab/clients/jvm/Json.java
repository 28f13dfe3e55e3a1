// A reader of JSON, as far as the tester's document needs one: no library of the client under test is asked for it.

import java.util.Map;
import java.util.TreeMap;

/** Reads the tester's document: objects, texts, whole numbers, true, false and null. */
final class Json {
    private final String text;
    private int at;

    Json(String text) {
        this.text = text;
    }

    Map<String, Object> object() {
        Map<String, Object> found = new TreeMap<>();
        take('{');
        while (next() != '}') {
            String key = string();
            take(':');
            found.put(key, value());
            if (next() == ',') at++;
        }
        at++;
        return found;
    }

    private Object value() {
        char first = next();
        if (first == '{') return object();
        if (first == '"') return string();
        int end = at;
        while (end < text.length() && ",} \n".indexOf(text.charAt(end)) < 0) end++;
        String word = text.substring(at, end);
        at = end;
        if (word.equals("null")) return null;
        return word.equals("true") ? Boolean.TRUE : word.equals("false") ? (Object) Boolean.FALSE : Long.valueOf(word);
    }

    private String string() {
        StringBuilder out = new StringBuilder();
        take('"');
        for (char each; (each = text.charAt(at++)) != '"'; ) {
            if (each != '\\') {
                out.append(each);
                continue;
            }
            char escaped = text.charAt(at++);
            if (escaped == 'u') {
                out.append((char) Integer.parseInt(text.substring(at, at + 4), 16));
                at += 4;
            } else {
                int known = "nrtbf".indexOf(escaped);
                out.append(known < 0 ? escaped : "\n\r\t\b\f".charAt(known));
            }
        }
        return out.toString();
    }

    private char next() {
        while (Character.isWhitespace(text.charAt(at))) at++;
        return text.charAt(at);
    }

    private void take(char expected) {
        if (next() != expected) throw new IllegalArgumentException("no " + expected + " at " + at);
        at++;
    }
}
