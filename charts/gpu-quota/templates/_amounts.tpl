{{- /*
gpu-quota.request: what is requested for a limit of cpu, memory or ephemeral-storage: the limit by the host's ratio.
Takes (list KEY LIMIT $). Memory and storage are bytes, rounded down.
*/ -}}
{{- define "gpu-quota.request" -}}
{{-   $key := index . 0 -}}
{{-   $root := index . 2 -}}
{{-   $setting := printf "%s-allocation-ratio" $key -}}
{{-   $default := get (dict "cpu" "10" "memory" "1" "ephemeral-storage" "40") $key -}}
{{-   $ratio := get ($root.Values._cluster | default dict) $setting | toString | default $default -}}
{{-   if not (gt (float64 $ratio) 0.0) -}}
{{-     fail (printf "_cluster.%s is %q: a number above 0 is needed" $setting $ratio) -}}
{{-   end -}}
{{-   $request := divf (include "gpu-quota.number" (index . 1) | float64) $ratio -}}
{{-   ternary $request (int $request) (eq $key "cpu") | toString -}}
{{- end -}}

{{- /*
gpu-quota.number: a quantity as a floating point number; what is no quantity is 0, as it is for the host.
*/ -}}
{{- define "gpu-quota.number" -}}
{{-   $text := toString . -}}
{{-   $suffix := regexFind "([KMGTPE]i|[numkMGTPE])$" $text -}}
{{-   $scale := get (dict "n" 1e-9 "u" 1e-6 "m" 1e-3 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18
        "Ki" 0x1p10 "Mi" 0x1p20 "Gi" 0x1p30 "Ti" 0x1p40 "Pi" 0x1p50 "Ei" 0x1p60) $suffix -}}
{{-   mulf (trimSuffix $suffix $text | float64) ($scale | default 1.0) | toString -}}
{{- end -}}
