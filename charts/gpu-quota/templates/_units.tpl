{{- /*
gpu-quota.units: an amount of GPUs as plain digits. Takes a value in any form of a Kubernetes quantity.

What is no quantity, a fraction, negative, or longer than 40 characters is 0, as the product counts it: a tenant gets none
by it, and all else of its release goes on. More than Kubernetes can store is the most it can. Digits are moved as text,
since a floating point number would round a fraction away.
*/ -}}
{{- define "gpu-quota.units" -}}
{{-   $text := "" -}}
{{-   if or (kindIs "string" .) (regexMatch "^(u?int|float)[0-9]*$" (kindOf .)) -}}
{{-     $text = toString . | trimAll " " -}}
{{-   end -}}
{{-   $form := "^[+-]?([0-9]*)[.]?([0-9]*)([numkMGTPE]?|[KMGTPE]i|[eE][+-]?[0-9]+)$" -}}
{{-   if and (le (len $text) 40) (regexMatch $form $text) (regexMatch "^[+]?[.]?[0-9]" $text) -}}
{{-     $whole := regexReplaceAll $form $text "${1}" -}}
{{-     $part := regexReplaceAll "0+$" (regexReplaceAll $form $text "${2}") "" -}}
{{-     $suffix := regexReplaceAll $form $text "${3}" -}}
{{-     if hasSuffix "i" $suffix -}}
{{-       include "gpu-quota.binary" (list $whole $part $suffix) -}}
{{-     else -}}
{{-       include "gpu-quota.decimal" (list $whole $part $suffix) -}}
{{-     end -}}
{{-   else -}}
{{-     "0" -}}
{{-   end -}}
{{- end -}}

{{- define "gpu-quota.most" -}}9223372036854775807{{- end -}}

{{- /*
gpu-quota.decimal: (list WHOLE PART SUFFIX), the digits before and after the point moved by the suffix, a power of ten.
*/ -}}
{{- define "gpu-quota.decimal" -}}
{{-   $digits := print (index . 0) (index . 1) -}}
{{-   $suffix := index . 2 -}}
{{-   $moved := get (dict "" 0 "n" -9 "u" -6 "m" -3 "k" 3 "M" 6 "G" 9 "T" 12 "P" 15 "E" 18) $suffix -}}
{{-   if regexMatch "[0-9]" $suffix -}}
{{-     $exponent := regexFind "[0-9]+$" $suffix | regexFind "[1-9][0-9]*$" | default "0" -}}
{{-     $moved = gt (len $exponent) 2 | ternary 99 (int $exponent) -}}
{{-     $moved = contains "-" $suffix | ternary (sub 0 $moved) $moved -}}
{{-   end -}}
{{-   $moved = sub $moved (len (index . 1)) | int -}}
{{-   $left := "" -}}
{{-   if ge $moved 0 -}}
{{-     $digits = print $digits (repeat $moved "0") -}}
{{-   else -}}
{{-     $digits = print (repeat (sub 0 $moved | int) "0") $digits -}}
{{-     $left = trunc $moved $digits -}}
{{-     $digits = trimSuffix $left $digits -}}
{{-   end -}}
{{-   $digits = regexFind "[1-9][0-9]*$" $digits | default "0" -}}
{{-   $most := include "gpu-quota.most" . -}}
{{-   if or (gt (len $digits) (len $most)) (and (eq (len $digits) (len $most)) (ge $digits $most)) -}}
{{-     $most -}}
{{-   else -}}
{{-     regexMatch "[1-9]" $left | ternary "0" $digits -}}
{{-   end -}}
{{- end -}}

{{- /*
gpu-quota.binary: (list WHOLE PART SUFFIX), the number by the suffix, a power of two. With n digits after the point the
amount is whole when these, read as a number, can be divided by 5 to the n: the powers of two in 10 to the n are in the
suffix.
*/ -}}
{{- define "gpu-quota.binary" -}}
{{-   $bits := get (dict "Ki" 10 "Mi" 20 "Gi" 30 "Ti" 40 "Pi" 50 "Ei" 60) (index . 2) -}}
{{-   $whole := regexFind "[1-9][0-9]*$" (index . 0) | default "0" -}}
{{-   $places := len (index . 1) -}}
{{-   $part := regexFind "[1-9][0-9]*$" (index . 1) | default "0" | trunc 18 | int64 -}}
{{-   $five := 1 -}}
{{-   range until (min $places 18 | int) -}}{{- $five = mul $five 5 -}}{{- end -}}
{{-   $room := 1 -}}
{{-   range until (sub 63 $bits | int) -}}{{- $room = mul $room 2 -}}{{- end -}}
{{-   if or (gt (len $whole) 18) (ge (int64 $whole) (int64 $room)) -}}
{{-     include "gpu-quota.most" . -}}
{{-   else if or (gt $places 18) (gt $places $bits) (ne (mod $part $five) 0) -}}
{{-     "0" -}}
{{-   else -}}
{{-     $amount := int64 $whole -}}
{{-     $rest := div $part $five -}}
{{-     range until $bits -}}{{- $amount = mul $amount 2 -}}{{- end -}}
{{-     range until (sub $bits $places | int) -}}{{- $rest = mul $rest 2 -}}{{- end -}}
{{-     add $amount $rest -}}
{{-   end -}}
{{- end -}}
