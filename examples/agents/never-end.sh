# Outlives its deadline in every way it can: it ignores SIGTERM, and a child leaves its session.
trap '' TERM
echo '{"children": 1}' >output.json
setsid sleep 1000 &
n=0
while :; do
  n=$((n + 1))
  echo "still here after $n rounds"
  sleep 0.2
done
